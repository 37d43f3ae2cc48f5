# SPDX-License-Identifier: Apache-2.0
"""What tests of the program gsched_server alone share, beside served.py.

The script that imports it is called with BIN DATA.
"""

import json
import os
import subprocess
import sys
import time

import served
from served import Rest as Unix, ask, expect, report as finish

BIN, DATA = map(os.path.abspath, sys.argv[1:3])
__all__ = ["BIN", "DATA", "Server", "Unix", "ask", "expect", "finish", "refused", "write"]


class Server(served.Server):
    """The program, until its end."""

    def __init__(self, *options):
        super().__init__(BIN, *options)

    def end(self, signals=1):
        for _ in range(signals):
            self.signal()
            time.sleep(0.05)
        return self.wait()


def write(path, value):
    with open(path, "w") as f:
        f.write(value if isinstance(value, str) else json.dumps(value))


def refused(what, text, *options, status=2):
    r = subprocess.run([BIN, *options], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    good = r.returncode == status and r.stdout == "" and r.stderr.count("\n") == 1 and r.stderr.startswith("gsched_server: ")
    expect(f"{what}: status {status} and one line with '{text}'", good and text in r.stderr and ", expected " in r.stderr,
           (r.returncode, r.stdout, r.stderr))
