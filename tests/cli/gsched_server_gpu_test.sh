# SPDX-License-Identifier: Apache-2.0
# The network server on the GPU here, if there is one.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server_gpu: not built, not tested"
  exit 0
fi
python3 -B "${GSCHED_SOURCE_DIR:?}/tests/cli/gsched_server_gpu.py" "$bin" "$GSCHED_SOURCE_DIR/tools/data"
