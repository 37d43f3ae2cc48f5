# SPDX-License-Identifier: Apache-2.0
# gRPC by grpcio, with messages made from the published description of the protocol.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "network_grpcio: not built, not tested"
  exit 0
fi
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/network_clients.py" grpcio "$bin" "$GSCHED_SOURCE_DIR" "$GSCHED_BIN_DIR/../clients/grpcio"
