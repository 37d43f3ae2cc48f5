# SPDX-License-Identifier: Apache-2.0
"""Compares kernels with a macro to plain ones, by what ptxas said and by their PTX."""

import re
import sys


def costs(path):
    """Of each kernel: registers, bytes of stack and spills, shared memory."""
    found = {}
    name = None
    for line in open(path):
        if m := re.search(r"Compiling entry function '(\w+)'", line):
            name = m[1]
            found[name] = {"local": 0}
        if m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads",
                          line):
            found[name]["local"] += sum(map(int, m.groups()))
        if m := re.search(r"Used (\d+) registers", line):
            found[name]["registers"] = int(m[1])
            shared = re.search(r"(\d+) bytes smem", line)
            found[name]["shared"] = int(shared[1]) if shared else 0
            found[name]["local"] += sum(map(int, re.findall(r"(\d+) bytes lmem", line)))
    return found


def code(path):
    """PTX without what depends on the file's name: comments and blank lines."""
    lines = (line.split("//")[0].rstrip() for line in open(path))
    return [line for line in lines if line.strip()]


def compare(what, off, kernels, least_registers, shared_bytes):
    """Prints a table and exits with 1 for a kernel that costs too much: more than four registers,
    counted from `least_registers` on, local memory, more than shared_bytes(kernel) of shared
    memory; or if anything is left under the macro `off`."""
    failures = []
    print(f"{'kernel':<14} {'arch':<6} {'registers':>9} {'plain':>6} {'shared':>7} {'plain':>6} "
          f"{'local':>6}")
    for arch in ("80", "90"):
        with_it, plain = (costs(f"{which}.{arch}.log") for which in (what, "plain"))
        for kernel in kernels:
            if kernel not in with_it or kernel not in plain:
                sys.exit(f"sm_{arch}: ptxas said nothing of {kernel}")
            w, p = with_it[kernel], plain[kernel]
            print(f"{kernel:<14} sm_{arch:<3} {w['registers']:>9} {p['registers']:>6} "
                  f"{w['shared']:>7} {p['shared']:>6} {w['local']:>6}")
            if w["registers"] > max(p["registers"], least_registers) + 4:
                failures.append(f"sm_{arch} {kernel}: {w['registers']} registers, plain "
                                f"{p['registers']}")
            if w["local"] > p["local"]:
                failures.append(f"sm_{arch} {kernel}: {w['local']} bytes of local memory")
            if w["shared"] > p["shared"] + shared_bytes(kernel):
                failures.append(f"sm_{arch} {kernel}: {w['shared']} bytes of shared memory")
        if code(f"none.{arch}.ptx") != code(f"plain.{arch}.ptx"):
            failures.append(f"sm_{arch}: PTX under {off} is not the plain kernels'")
        if f"sm_{arch}" not in "".join(code(f"none.{arch}.ptx")):
            failures.append(f"sm_{arch}: no PTX to compare")
    for failure in failures:
        print("FAILED:", failure)
    sys.exit(1 if failures else 0)
