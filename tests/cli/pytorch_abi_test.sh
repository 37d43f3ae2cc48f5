#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package agrees with gsched_c.h and gsched_measure.h: sizes and places of all fields, functions, numbers of
# states. Where the library is built and there is no GPU, a server says so in one line.
set -euo pipefail
header=$GSCHED_SOURCE_DIR/cuda/c/include/gsched/gsched_c.h
measuring=$GSCHED_SOURCE_DIR/tools/cuda/measure/library/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$GSCHED_SOURCE_DIR/python:$GSCHED_SOURCE_DIR/examples/pytorch PYTHONDONTWRITEBYTECODE=1

python3 - "$work/layout.c" <<'PY'
import ctypes, sys
from gsched import _abi, measure
structs = [c for c in vars(_abi).values() if isinstance(c, type)
           and issubclass(c, ctypes.Structure) and c.__name__.startswith("gsched_")]
assert len(structs) == 17, structs
structs.append(measure.gsched_measure_graph)
lines = ["#include <gsched/gsched_c.h>", "#include <gsched/gsched_measure.h>", "#include <stdio.h>",
         "int main(void) {"]
for s in structs:
    lines.append(f'printf("{s.__name__} %zu\\n", sizeof({s.__name__}));')
    lines += [f'printf("{s.__name__}.{f} %zu %zu\\n", offsetof({s.__name__}, {f}), '
              f'sizeof((({s.__name__}*)0)->{f}));' for f, _ in s._fields_]
for i, state in enumerate(_abi.STATES):
    lines.append(f'printf("{i} %d\\n", (int)GSCHED_{state.upper()});')
lines += [f'printf("{value} %d\\n", (int){name});' for name, value in (
    ("GSCHED_ABI", _abi.ABI), ("GSCHED_MEASURE_ABI", measure.ABI), ("GSCHED_OK", _abi.OK), ("GSCHED_CLOSED", _abi.CLOSED),
    ("GSCHED_TIMED_OUT", _abi.TIMED_OUT), ("GSCHED_ENDED", _abi.ENDED),
    ("GSCHED_BAD_ARGUMENT", _abi.BAD_ARGUMENT), ("GSCHED_DEVICE_FAILED", _abi.DEVICE_FAILED),
    ("GSCHED_DRAIN", _abi.DRAIN), ("GSCHED_CANCEL", _abi.CANCEL))]
open(sys.argv[1], "w").write("\n".join([*lines, "return 0; }", ""]))
PY
${CC:-cc} -std=c11 -Wall -Wextra -Werror -I "$GSCHED_SOURCE_DIR/cuda/c/include" -I "$measuring" \
  -o "$work/layout" "$work/layout.c"
"$work/layout" >"$work/said"

python3 - "$work/said" "$header" <<'PY'
import ctypes, re, sys
from gsched import _abi, measure
checks = 0
for line in open(sys.argv[1]):
    what, *numbers = line.split()
    numbers = list(map(int, numbers))
    name, _, field = what.partition(".")
    module = measure if name.startswith("gsched_measure_") else _abi
    if field:
        ours = getattr(getattr(module, name), field)
        assert [ours.offset, ours.size] == numbers, f"{what}: {ours}, the header says {numbers}"
    elif name.isdigit():
        assert [int(name)] == numbers, line
    else:
        assert [ctypes.sizeof(getattr(module, name))] == numbers, line
    checks += 1
text = "".join(re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
               for header in (sys.argv[2], sys.argv[2].replace("gsched_c.h", "gsched_c_plan.h")))
for name, (_, arguments) in _abi.FUNCTIONS.items():
    declared = re.search(rf"GSCHED_API [^;(]*\b{name}\(([^;]*)\);", text)
    assert declared, f"{name}: not in the header"
    parameters = [p for p in declared.group(1).split(",") if p.strip() != "void"]
    assert len(parameters) == len(arguments), f"{name}: {parameters}"
    checks += 1
print(f"{checks} layouts, numbers and functions agree")
assert checks > 100
PY

library=$(find "$GSCHED_BIN_DIR/.." -name libgsched_c.so -print -quit)
if [ -n "$library" ] && ldd "$library" | grep -qE 'lib(a|t)san'; then
  echo "$library: a sanitizer's, which python3 cannot load"
elif [ -n "$library" ]; then
  GSCHED_C_LIBRARY=$library python3 - <<'PY'
import gsched
library = gsched.load_library()
assert set(library.gsched_policy_names().decode().split()) >= {
    "fifo", "rr", "sjf", "srpt", "edf", "deficit", "srpt+deficit", "direct", "single"}
try:
    with gsched.Server() as server:
        print("there is a GPU:", server.statistics()["submitted"], "requests")
except gsched.GschedError as e:
    assert e.code == 2 and str(e) and "\n" not in str(e), (e.code, str(e))
    print("no GPU:", e)
for arguments, text in (({"policy": "no-such"}, "no-such"), ({"quantum": -1.0}, "quantum -1, expected 1e-06 to 1000, in seconds"),
                        ({"watchdog": 0.0004}, "watchdog: expected at least 0.001, in seconds")):
    try:
        gsched.Server(**arguments).close()
    except gsched.GschedError as e:
        assert text in str(e) and "\n" not in str(e), str(e)
    else:
        raise AssertionError(f"{arguments} went unnoticed")
PY
fi
