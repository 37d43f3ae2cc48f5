#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wheel with the C library that was built, installed: the library is found and loaded, a server
# without a GPU is refused in one line, and with a GPU and a PyTorch the README's examples run.
set -euo pipefail
library=$(find "$GSCHED_BIN_DIR/.." -name libgsched_c.so -print -quit)
if [ -z "$library" ]; then
  echo "no libgsched_c.so was built, which needs a CUDA compiler: not built, not tested"
  exit 0
elif ldd "$library" | grep -qE 'lib(a|t)san'; then
  echo "$library: a sanitizer's, which python3 cannot load: not tested"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source "$GSCHED_SOURCE_DIR/tests/cli/python_wheel.sh"
unset GSCHED_C_LIBRARY
install_wheel "$library"
cd "$work"
env -i PATH="$work/venv/bin" "$work/venv/bin/python" -I - "$work" <<'PY'
import os, sys
import gsched
library = gsched.load_library()
assert os.path.realpath(library._name).startswith(os.path.realpath(f"{sys.argv[1]}/venv/"))
assert library.gsched_version().decode() == gsched.__version__
for arguments, text in (({"policy": "lifo"}, "'lifo': unknown"),
                        ({"quantum": -1.0}, "quantum -1, expected 1e-06 to 1000, in seconds")):
    try:
        gsched.Server(**arguments)
        raise AssertionError(f"{arguments} went unnoticed")
    except gsched.GschedError as e:
        assert e.code == 1 and text in str(e) and "\n" not in str(e), str(e)
try:
    gsched.Server().close()
    print("a server was opened")
except gsched.GschedError as e:
    assert e.code == 2 and str(e) and "\n" not in str(e), (e.code, str(e))
    print("no server:", e)
PY

# A torch is not among what a wheel brings, so the environment sees that of the system.
for torch in python3 /usr/bin/python3; do
  "$torch" -c 'import sys, torch, torchvision; sys.exit(not torch.cuda.is_available())' 2>/dev/null && break
  torch=
done
if [ -z "$torch" ]; then
  echo "the README's examples: no PyTorch or no GPU: not tested"
  exit 0
fi
examples >examples.py
rm -rf venv
python=$torch
install_wheel "$library" --system-site-packages
# Where that Python is one of a virtual environment, its packages are not the system's.
"$torch" -c 'import site; print("\n".join(site.getsitepackages()))' \
  >"$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
timeout 200 venv/bin/python examples.py
