# SPDX-License-Identifier: Apache-2.0
"""Importing this makes the package `gsched` of this checkout come before an installed one."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
