# SPDX-License-Identifier: Apache-2.0
# The status page of the network server as a browser shows it, where both are there.
set -u
bin=${GSCHED_BIN_DIR:?}/gsched_server
if [ ! -x "$bin" ]; then
  echo "gsched_server: not built, not tested"
  exit 0
fi
for name in chromium-headless-shell chromium google-chrome; do
  browser=$(command -v $name) && break
done
if [ -z "${browser:-}" ]; then
  echo "chromium: passed over"
  exit 0
fi
GSCHED_BROWSER=$browser python3 -B "${GSCHED_SOURCE_DIR:?}/tests/cli/gsched_status_page.py" "$bin" \
  "$GSCHED_SOURCE_DIR/tools/data"
