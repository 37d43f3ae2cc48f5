# SPDX-License-Identifier: Apache-2.0
# The network server with TLS, by certificates that openssl makes here.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server_tls: not built, not tested"
  exit 0
fi
if ! command -v openssl >/dev/null; then
  echo "gsched_server_tls, no openssl: passed over"
  exit 0
fi
python3 -B "${GSCHED_SOURCE_DIR:?}/tests/cli/gsched_server_tls.py" "$bin" "$GSCHED_SOURCE_DIR/tools/data"
