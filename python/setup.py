# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml cannot say: the wheel holds the C library, so it is for one platform."""

import pathlib
import platform
import re
import sys

from setuptools import Distribution, setup

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError: # before setuptools 70
    from wheel.bdist_wheel import bdist_wheel

LIBRARY = pathlib.Path(__file__).resolve().parent / "gsched" / "libgsched_c.so"


def platform_tag():
    """manylinux with the version of glibc that the library needs: pip then refuses the wheel where the
    loader would refuse the library. The library needs nothing else: C++'s and CUDA's runtimes are
    linked into it, and it opens the driver when it is used. Otherwise, and for a package without a
    library (an editable one), linux."""
    machine = platform.machine()
    content = LIBRARY.read_bytes() if LIBRARY.is_file() else b""
    minors = [int(m) for m in re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", content)]
    if not minors or b"\0GLIBCXX_" in content:
        return f"linux_{machine}"
    return f"manylinux_2_{max(minors + [17])}_{machine}"


class OfOnePlatform(Distribution):
    def has_ext_modules(self):
        return True


class Wheel(bdist_wheel):
    def run(self):
        if not LIBRARY.is_file():
            sys.exit(f"{LIBRARY.name}: not in {LIBRARY.parent}, expected there; ./dev wheel puts it there")
        super().run()

    def get_tag(self):
        return "py3", "none", platform_tag() # ctypes: any Python of the versions in pyproject.toml


setup(distclass=OfOnePlatform, cmdclass={"bdist_wheel": Wheel})
