#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev wheel builds a wheel that pip installs into a clean environment, without a network, and the
# README's examples run from there. The C library in it and torch only play their parts.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
source "$GSCHED_SOURCE_DIR/tests/cli/python_wheel.sh"
played=$work/libgsched_c.so
unset GSCHED_C_LIBRARY
cd "$work" # not where the package's sources are

fails() { # fails TEXT ARGUMENT...: ./dev wheel ends with status 1 and one line that holds TEXT
  local text=$1 rc=0
  shift
  "$GSCHED_SOURCE_DIR/dev" wheel "$@" >out 2>err || rc=$?
  [ $rc = 1 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$text" err ||
    { echo "wheel $*: status $rc, expected 1 and '$text'"; cat out err; exit 1; }
}
fails 'no-such.so: expected a file' --library no-such.so
fails 'no-client.so: expected a file' --library "$played" --client no-client.so
fails "'--no-such', expected --out DIR, --library FILE or --client FILE" --no-such x
fails "'--out', expected --out DIR, --library FILE or --client FILE" --out
# A copy of the script that looks for the CUDA compiler elsewhere: it says what is missing, first.
if ! PATH=/usr/bin:/bin command -v nvcc >/dev/null; then
  sed 's|/usr/local/cuda|/no/cuda|' "$GSCHED_SOURCE_DIR/dev" >dev
  rc=0
  PATH=/usr/bin:/bin bash dev wheel --out none >out 2>err || rc=$?
  [ $rc = 1 ] && [ ! -e none ] &&
    [ "$(cat err)" = 'dev: no CUDA compiler: expected nvcc on PATH or in /no/cuda/bin' ] ||
    { echo "without a CUDA compiler: status $rc"; cat err; exit 1; }
fi

sources() { (cd "$GSCHED_SOURCE_DIR" && find python -not -path '*/__pycache__*' | sort); }
before=$(sources)
install_wheel "$played"
[ "$before" = "$(sources)" ] ||
  { echo "the wheel's build has left files in python/"; exit 1; }

# Its name says which Python and which platform it is for.
"$python" - "$wheel" "$GSCHED_SOURCE_DIR" <<'PY'
import re, sys, zipfile
path, source = sys.argv[1:]
name = path.rsplit("/", 1)[1]
version = re.search(r"^project\(gsched VERSION (\S+)", open(f"{source}/CMakeLists.txt").read(), re.M)[1]
assert re.fullmatch(rf"gsched-{re.escape(version)}-py3-none-manylinux_2_\d+_\w+\.whl", name), name
with zipfile.ZipFile(path) as wheel:
    files = wheel.namelist()
    info = f"gsched-{version}.dist-info"
    assert "Root-Is-Purelib: false" in wheel.read(f"{info}/WHEEL").decode()
    metadata = wheel.read(f"{info}/METADATA").decode()
    assert "# gsched for Python" in metadata and "Requires-Python: >=3.11" in metadata
inside = {f for f in files if not f.startswith(info)}
import os
expected = {f"gsched/{f}" for f in os.listdir(f"{source}/python/gsched") if f.endswith((".py", ".typed"))}
expected |= {"gsched/libgsched_c.so", "gsched/libgsched_client.so"}
assert inside == expected, inside ^ expected
PY

# The C library is that of the wheel, wherever a compiler and a checkout are.
env -i PATH="$work/venv/bin" "$work/venv/bin/python" -I - "$work" <<'PY'
import importlib.metadata, os, sys
import gsched
where = os.path.realpath(os.path.dirname(gsched.__file__))
assert where.startswith(os.path.realpath(f"{sys.argv[1]}/venv/")), where
assert gsched.__version__ == importlib.metadata.version("gsched")
library = gsched.load_library()
assert os.path.realpath(library._name) == f"{where}/libgsched_c.so", library._name
assert library.gsched_version() == b"played"
assert "torch" not in sys.modules
PY
# So is the library of clients, which needs no other one.
[ -n "$GSCHED_SANITIZED" ] || env -i PATH="$work/venv/bin" "$work/venv/bin/python" -I - "$work" <<'PY'
import os, sys
import gsched
from gsched import _abi, _client_abi
where = os.path.realpath(os.path.dirname(gsched.__file__))
try:
    gsched.Client("@gsched-test-nobody")
    raise AssertionError("connected")
except gsched.GschedError as e:
    assert "@gsched-test-nobody: connect" in str(e), e
assert os.path.realpath(_client_abi.library._name) == f"{where}/libgsched_client.so"
assert _abi.library is None and "torch" not in sys.modules
PY

# The README's examples, with a torch that plays its part.
examples >examples.py
grep -q 'gsched.Server' examples.py || { echo "no example in the README"; exit 1; }
env -i PATH="$work/venv/bin" PYTHONPATH="$work" "$work/venv/bin/python" examples.py >out 2>&1 ||
  { cat out; echo "the README's examples failed"; exit 1; }
cat out
[ "$(wc -l <out)" -ge 1 ] || { echo "the examples print nothing"; exit 1; }
echo "the wheel is as it should be"
