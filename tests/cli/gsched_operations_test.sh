# SPDX-License-Identifier: Apache-2.0
# What an operator of the network server sees, where it was built.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server: not built, not tested"
  exit 0
fi
python3 -B "${GSCHED_SOURCE_DIR:?}/tests/cli/gsched_operations.py" "$bin" "$GSCHED_SOURCE_DIR/tools/data"
