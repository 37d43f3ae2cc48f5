# SPDX-License-Identifier: Apache-2.0
# /metrics by the rules of Prometheus's own tool.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "network_promtool: not built, not tested"
  exit 0
fi
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/network_clients.py" promtool "$bin" "$GSCHED_SOURCE_DIR" "$GSCHED_BIN_DIR/../clients/promtool"
