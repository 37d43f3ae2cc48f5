# SPDX-License-Identifier: Apache-2.0
# The network server, where it was built: REST, limits, reloads and drains, by Python's own client.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server: not built, not tested"
  exit 0
fi
python3 -B "${GSCHED_SOURCE_DIR:?}/tests/cli/gsched_server.py" "$bin" "$GSCHED_SOURCE_DIR/tools/data"
