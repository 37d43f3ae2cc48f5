#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [SERVERS [SECONDS]]: HAProxy before two or four gsched_servers on this machine, with load on them,
# in a temporary folder and on Unix sockets. After a third of the time one server ends (SIGTERM), and after two
# thirds another one is killed where there are four. With SECONDS 0 it serves until Ctrl-C.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
servers=${1:-2} seconds=${2:-9}
bin=${GSCHED_SERVER:-$here/../../build/release/bin/gsched_server}
[[ $servers == 2 || $servers == 4 ]] || { echo "run.sh: '$servers' servers, expected 2 or 4" >&2; exit 2; }
[ -x "$bin" ] || { echo "run.sh: $bin: not built; GSCHED_SERVER can name another" >&2; exit 1; }
haproxy=$(command -v haproxy || command -v /usr/sbin/haproxy) ||
  { echo "run.sh: no haproxy here (apt-get install haproxy)" >&2; exit 1; }

export GSCHED_FOLDER
GSCHED_FOLDER=$(mktemp -d /tmp/gsched.XXXXXX)
pids=()
end() {
  kill "${pids[@]}" 2>/dev/null || true
  wait || true
  rm -rf "$GSCHED_FOLDER"
}
trap end EXIT
trap exit INT TERM

for n in $(seq "$servers"); do
  "$bin" --config "$here/server.json" --http "unix:$GSCHED_FOLDER/http$n.sock" --grpc "unix:$GSCHED_FOLDER/grpc$n.sock" \
    --agent 127.0.0.1:0 >"$GSCHED_FOLDER/$n.out" &
  pids+=($!)
  until grep -q '^serving' "$GSCHED_FOLDER/$n.out"; do
    kill -0 "${pids[-1]}"
    sleep 0.1
  done
  export "GSCHED_AGENT_$n=$(grep -o 'agent=127.0.0.1:[0-9]*' "$GSCHED_FOLDER/$n.out" | cut -d: -f2)"
  export "GSCHED_HTTP_$n=unix@$GSCHED_FOLDER/http$n.sock" "GSCHED_GRPC_$n=unix@$GSCHED_FOLDER/grpc$n.sock"
done
export GSCHED_REST=unix@$GSCHED_FOLDER/rest.sock GSCHED_GRPC=unix@$GSCHED_FOLDER/grpc.sock
"$haproxy" -db -f "$here/haproxy.cfg" &
pids+=($!)
until curl -sf --unix-socket "$GSCHED_FOLDER/rest.sock" http://localhost/v2/health/ready >/dev/null 2>&1; do
  kill -0 "${pids[-1]}"
  sleep 0.1
done
echo "REST on $GSCHED_FOLDER/rest.sock, gRPC on $GSCHED_FOLDER/grpc.sock"
if [ "$seconds" = 0 ]; then
  wait
  exit
fi
python3 "$here/load.py" "$GSCHED_FOLDER/rest.sock" "$seconds" 8 &
load=$!
sleep $((seconds / 3))
echo "server 1 ends"
kill "${pids[0]}"
sleep $((seconds / 3))
if [ "$servers" = 4 ]; then
  echo "server 2 is killed"
  kill -9 "${pids[1]}"
fi
wait $load
