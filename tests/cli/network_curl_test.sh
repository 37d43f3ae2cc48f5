# SPDX-License-Identifier: Apache-2.0
# REST by curl: every kind of answer.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "network_curl: not built, not tested"
  exit 0
fi
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/network_clients.py" curl "$bin" "$GSCHED_SOURCE_DIR" "$GSCHED_BIN_DIR/../clients/curl"
