# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of the wheel: builds it with the C library $1 and the library of clients
# $GSCHED_CLIENT_LIBRARY, and installs it without a network into a new virtual environment, $work/venv.
# Arguments after that go to python3 -m venv.
for python in /usr/bin/python3 python3; do
  "$python" -c 'import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
  python=
done
if [ -z "$python" ] || ! "$python" -c 'import setuptools, wheel' 2>/dev/null; then
  echo "no Python 3.11 with venv, setuptools and wheel: not tested"
  exit 0
fi

install_wheel() { # install_wheel LIBRARY [VENV-OPTION...]
  local library=$1
  shift
  unset PYTHONPATH PYTHONHOME
  wheel=$("$GSCHED_SOURCE_DIR/dev" wheel --library "$library" --client "$GSCHED_CLIENT_LIBRARY" \
    --out "$work/wheels")
  "$python" -m venv "$@" "$work/venv"
  # No index, no dependencies, no compiler: a wheel.
  PATH=$work/venv/bin PIP_CONFIG_FILE=/dev/null "$work/venv/bin/pip" install --quiet --no-index \
    --no-cache-dir --disable-pip-version-check --only-binary :all: "$wheel"
}

# The Python examples of the package's README, one after the other, but for those of clients, and of
# plans: the torch that plays its part has no batches (pytorch_plan_test.sh serves by plans).
examples() {
  awk '/^## / { other = $2 == "Clients" || $0 == "## Serve by plans" }
    /^```python$/ { open = !other; next } /^```$/ { open = 0 } open' \
    "$GSCHED_SOURCE_DIR/python/README.md"
}
