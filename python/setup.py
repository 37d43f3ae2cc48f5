# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml cannot say: the wheel holds the C libraries, so it is for one platform."""

import pathlib
import platform
import re
import sys

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError: # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

PACKAGE = pathlib.Path(__file__).resolve().parent / "gsched"
LIBRARIES = [PACKAGE / "libgsched_c.so", PACKAGE / "libgsched_client.so"]


def platform_tag():
    """manylinux with the version of glibc that the libraries need: pip then refuses the wheel where the
    loader would refuse a library. They need nothing else: C++'s and CUDA's runtimes are linked into
    them, and the driver is opened when a server starts. Otherwise, and for a package without a
    library (an editable one), linux."""
    machine = platform.machine()
    content = b"".join(file.read_bytes() for file in LIBRARIES if file.is_file())
    minors = [int(m) for m in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", content)]
    if not minors or b"\0GLIBCXX_" in content:
        return f"linux_{machine}"
    return f"manylinux_2_{max(minors + [17])}_{machine}"


class OfOnePlatform(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def run(self):
        for file in LIBRARIES:
            if not file.is_file():
                sys.exit(f"{file.name}: not in {PACKAGE}, expected there; ./dev wheel puts it there")
        super().run()

    def get_tag(self):
        return "py3", "none", platform_tag() # ctypes: any Python of the versions in pyproject.toml


setup(distclass=OfOnePlatform, cmdclass={"bdist_wheel": Wheel})
