# SPDX-License-Identifier: Apache-2.0
# What the network server cannot use: addresses, tensors, frames, bodies, and too few file descriptors.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server_bad_input: not built, not tested"
  exit 0
fi
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/gsched_server_bad_input.py" "$bin" "$GSCHED_SOURCE_DIR/tools/data"
