# SPDX-License-Identifier: Apache-2.0
# HAProxy before two and four servers, where there is one.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "scale_out: not built, not tested"
  exit 0
fi
haproxy=$(command -v haproxy || command -v /usr/sbin/haproxy)
if [ -z "$haproxy" ]; then
  echo "scale_out: no haproxy here: passed over"
  exit 0
fi
python3 "${GSCHED_SOURCE_DIR:?}/tests/cli/scale_out.py" "$haproxy" "$bin" "$GSCHED_SOURCE_DIR"
