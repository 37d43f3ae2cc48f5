# SPDX-License-Identifier: Apache-2.0
# gRPC by @grpc/grpc-js of npm, with the published description of the protocol.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "network_grpc_js: not built, not tested"
  exit 0
fi
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/network_clients.py" grpc_js "$bin" "$GSCHED_SOURCE_DIR" "$GSCHED_BIN_DIR/../clients/grpc_js"
