#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The type hints of the Python package hold by mypy's strict rules, and find errors of its users.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mypy=
for python in /usr/bin/python3 python3; do
  "$python" -c 'import mypy' 2>/dev/null && { mypy="$python -m mypy"; break; }
done
[ -n "$mypy" ] || { echo "no mypy: not tested"; exit 0; }
package=$GSCHED_SOURCE_DIR/python
mypy+=" --config-file $package/pyproject.toml --cache-dir $work/cache"
$mypy "$package/gsched"

# finds EXPECTED: what mypy says of the program on stdin; '' is nothing. All programs are judged at the end.
expected=()
finds() {
  { echo 'import gsched'; cat; } >"$work/user${#expected[@]}.py"
  expected+=("$1")
}
finds '' <<'PY'
import asyncio, concurrent.futures
from typing import Any
def use(module: Any, x: Any) -> float:
    with gsched.Server("fifo", quantum=100e-6, reserve_sms=[8, 16]) as server:
        model: gsched.Model = server.add_model(gsched.capture(module, x))
        futures = [server.submit(model, x, deadline=0.1, outputs="cuda") for _ in range(2)]
        for future in concurrent.futures.as_completed(futures):
            future.add_done_callback(print)
        async def answer() -> Any:
            return await asyncio.wrap_future(futures[0])
        options: gsched.ServerOptions = {"lanes": 4, "lease": 0.02}
        with gsched.Server(**options) as other:
            print(other.statistics()["host"], model.facts(), gsched.tensors_of(futures[0].result()))
        return futures[0].latency or 0.0
PY
finds '' <<'PY'
import asyncio, concurrent.futures
from typing import Any
def use(x: Any) -> float:
    with gsched.Client("/run/gsched.sock", wait="polling", poll_for=100e-6) as client:
        model: gsched.ClientModel = client.models["resnet18"]
        array = client.allocate(model, (1, 3, 224, 224), "float32")
        futures = [client.submit(model, array, deadline=5e-3), client.submit("resnet18", x, x, real_time=True)]
        for future in concurrent.futures.as_completed(futures):
            future.add_done_callback(print)
        async def answer() -> Any:
            return await asyncio.wrap_future(futures[0])
        return futures[1].latency or float(client.most_in_flight)
PY
finds 'Argument "wait"' <<<'gsched.Client("/run/gsched.sock", wait="spin")'
finds 'Unexpected keyword argument "deadline_us"' <<'PY'
def use(client: gsched.Client) -> gsched.ClientFuture:
    return client.submit("resnet18", deadline_us=5)
PY
finds 'Unexpected keyword argument "quantum_us"' <<<'gsched.Server(quantum_us=100)'
finds 'incompatible type "str"; expected "float"' <<<'gsched.Server(quantum="100 us")'
finds 'Argument "arrival_ns"' <<'PY'
def use(server: gsched.Server, model: gsched.Model) -> gsched.Future:
    return server.submit(model, None, arrival_ns=5)
PY
finds 'has no attribute "wait_for"' <<'PY'
def use(future: gsched.Future) -> None:
    future.wait_for(1)
PY
rc=0
MYPYPATH=$package $mypy --no-pretty "$work"/user*.py >"$work/said" 2>&1 || rc=$?
[ $rc = 1 ] || { cat "$work/said"; exit 1; }
for i in "${!expected[@]}"; do
  said=$(sed -n "/user$i\.py:/p" "$work/said")
  if [ -z "${expected[i]}" ]; then [ -z "$said" ]; else grep -qF -- "${expected[i]}" <<<"$said"; fi ||
    { echo "expected '${expected[i]}', mypy says:"; cat "$work/said"; exit 1; }
done
echo "the type hints are as they should be"
