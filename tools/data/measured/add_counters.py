#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds what newly counted profiles have to profiles of the same graphs that were counted without it:
what warps wait for, or which kernels are persistent.

    python -m gsched.measure counters --models ... --out new
    tools/data/measured/add_counters.py waits new/profiles tools/data/measured/five/profiles
    tools/data/measured/add_counters.py common_work new/profiles tools/data/measured/five/profiles

Everything else in a profile stays as it is. Both profiles must have the same kernels in the same order,
and be of the same kind of GPU; a graph of which there is only one profile is left out.
"""

import json
import pathlib
import sys

AFTER = {"waits": (), "common_work": (',"pipes":', ',"waits":')}  # what follows the field in a profile


def kernels(profile):
    return [(o["kind"], o.get("name"), o.get("grid")) for o in profile["operations"]]


def with_field(field, path, counted):
    """The text of the profile, with the field of `counted`; a ValueError in one line."""
    lines = path.read_text().split("\n")
    old = json.loads("\n".join(lines))
    for name in ("model", "batch", "device"):
        if old[name] != counted[name]:
            raise ValueError(f"{path}: {name} is {counted[name]} where counted, expected {old[name]}")
    if kernels(old) != kernels(counted):
        raise ValueError(f"{path}: other kernels than those counted, expected the same")
    first = next(i for i, line in enumerate(lines) if line.startswith('{"after"'))
    for i, operation in enumerate(counted["operations"]):
        value = operation.get("counters", {}).get(field)
        if value is None:
            continue
        if field in old["operations"][i].get("counters", {field: 0}):
            raise ValueError(f"{path}: operation {i} has {field} or no counters, expected counters without")
        line = lines[first + i]
        counters = line.index('"counters":{')
        ends = [line.index(text, counters) for text in AFTER[field] if text in line[counters:]]
        end = min(ends) if ends else line.rindex("}}")
        lines[first + i] = f'{line[:end]},"{field}":{json.dumps(value, separators=(",", ":"))}{line[end:]}'
    text = "\n".join(lines)
    json.loads(text)
    return text


def main():
    if len(sys.argv) != 4:
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    field = sys.argv[1]
    new, old = map(pathlib.Path, sys.argv[2:])
    both = sorted(p.name for p in old.glob("*.json") if (new / p.name).exists())
    try:
        if field not in AFTER:
            raise ValueError(f"field {field}, expected {' or '.join(AFTER)}")
        if not both:
            raise ValueError(f"{new}: no profile of a graph in {old}, expected at least one")
        made = {n: with_field(field, old / n, json.loads((new / n).read_text())) for n in both}
    except (OSError, ValueError, KeyError, StopIteration) as e:
        print(f"add_counters: {e}", file=sys.stderr)
        return 2
    for name, text in made.items():
        (old / name).write_text(text)
    print(f"{len(made)} profiles")
    return 0


if __name__ == "__main__":
    sys.exit(main())
