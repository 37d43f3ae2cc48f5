#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the waits of newly counted profiles to profiles of the same graphs that were counted without.

    python -m gsched.measure counters --models ... --out new
    tools/data/measured/add_waits.py new/profiles tools/data/measured/five/profiles

Everything else in a profile stays as it is. Both profiles must have the same kernels in the same order,
and be of the same kind of GPU; a graph of which there is only one profile is left out.
"""

import json
import pathlib
import sys


def kernels(profile):
    return [(o["kind"], o.get("name"), o.get("grid")) for o in profile["operations"]]


def with_waits(path, counted):
    """The text of the profile, with the waits of `counted`; a ValueError in one line."""
    lines = path.read_text().split("\n")
    old = json.loads("\n".join(lines))
    for field in ("model", "batch", "device"):
        if old[field] != counted[field]:
            raise ValueError(f"{path}: {field} is {counted[field]} where counted, expected {old[field]}")
    if kernels(old) != kernels(counted):
        raise ValueError(f"{path}: other kernels than those counted, expected the same")
    first = next(i for i, line in enumerate(lines) if line.startswith('{"after"'))
    for i, operation in enumerate(counted["operations"]):
        waits = operation.get("counters", {}).get("waits")
        if waits is None:
            continue
        if "waits" in old["operations"][i].get("counters", {"waits": 0}):
            raise ValueError(f"{path}: operation {i} has waits or no counters, expected counters without")
        line = lines[first + i]
        end = line.rindex("}}")
        lines[first + i] = f'{line[:end]},"waits":{json.dumps(waits, separators=(",", ":"))}{line[end:]}'
    text = "\n".join(lines)
    json.loads(text)
    return text


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    new, old = map(pathlib.Path, sys.argv[1:])
    both = sorted(p.name for p in old.glob("*.json") if (new / p.name).exists())
    try:
        if not both:
            raise ValueError(f"{new}: no profile of a graph in {old}, expected at least one")
        made = {name: with_waits(old / name, json.loads((new / name).read_text())) for name in both}
    except (OSError, ValueError, KeyError, StopIteration) as e:
        print(f"add_waits: {e}", file=sys.stderr)
        return 2
    for name, text in made.items():
        (old / name).write_text(text)
    print(f"{len(made)} profiles")
    return 0


if __name__ == "__main__":
    sys.exit(main())
