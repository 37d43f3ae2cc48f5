#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gsched.Client, against servers in other processes on the paced simulator: results in place, each kind of
# error, cancellation, futures, threads, fork, and the death of the server. With numpy, where a Python
# has it, and without.
set -euo pipefail
if [ -z "${GSCHED_CLIENT_LIBRARY:-}" ] || [ -n "$GSCHED_SANITIZED" ]; then
  echo "no library of clients that python3 can load: not tested"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$GSCHED_SOURCE_DIR/python PYTHONDONTWRITEBYTECODE=1
export GSCHED_C_LIBRARY=$work/none.so # which a client does not need
for python in /usr/bin/python3 python3; do
  "$python" -c 'import numpy' 2>/dev/null && break
done

cat >"$work/client.py" <<'PY'
import asyncio, concurrent.futures, gc, logging, os, signal, subprocess, sys, threading, time
if sys.argv[1] == "plain":
    sys.modules["numpy"] = None # cannot be imported
import faulthandler, gsched
faulthandler.dump_traceback_later(250, exit=True)
assert "torch" not in sys.modules and not sys.modules.get("numpy")

class Server:
    """A server in another process."""
    count = 0
    def __init__(self):
        Server.count += 1
        self.socket = f"@gsched-python-{os.getpid()}-{Server.count}"
        self.process = subprocess.Popen([os.environ["GSCHED_HOST_PROCESS"], self.socket], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "ready\n"
    def kill(self):
        self.process.kill()
        self.process.communicate()
    def end(self):
        """What it has counted, once all clients have left."""
        said, _ = self.process.communicate(timeout=20)
        assert self.process.returncode == 0 and said.startswith("all have left"), said
        return said

def raises(kind, text, call, *args, **named):
    try:
        call(*args, **named)
    except kind as e:
        assert text in str(e) and "\n" not in str(e), repr(e)
        return e
    raise AssertionError(f"no {kind.__name__} that says {text!r}")

def until(what):
    limit = time.monotonic() + 20
    while not what():
        assert time.monotonic() < limit
        time.sleep(0.001)

def all_free(client, size=64 << 10):
    """Whether no piece of the arena is in use; views can be freed by another thread, soon."""
    gc.collect()
    try:
        gsched._client_state.Piece(client._state.handle, size)
        return True
    except gsched.GschedError as e:
        assert e.code == 11
        return False

GschedError, CancelledError = gsched.GschedError, concurrent.futures.CancelledError
server = Server()
raises(GschedError, "connect", gsched.Client, server.socket + "x")
raises(GschedError, "power of two", gsched.Client, server.socket, slots=7)
raises(GschedError, "slots: -1", gsched.Client, server.socket, slots=-1)
raises(GschedError, "wait: 'no', expected one of hybrid", gsched.Client, server.socket, wait="no")
raises(GschedError, "poll_for: -1, expected seconds", gsched.Client, server.socket, poll_for=-1)
raises(GschedError, "zero byte", gsched.Client, "/a\0b")

values = bytes(range(256))
few = dict(slots=8, arena_bytes=64 << 10)
for wait in ("hybrid", "polling", "waiting"):
    with gsched.Client(server.socket, wait=wait, **few) as client:
        models = client.models
        brief = models["brief"]
        assert list(models) == ["brief", "endless", "failing"]
        assert (brief.input_bytes, brief.output_bytes) == (256, 256)
        assert client.most_in_flight == 8 and client.in_flight == 0
        futures = [client.submit(brief, bytes([n]) * 128, bytearray(values[:128])) for n in range(8)]
        for n, future in enumerate(futures):
            assert bytes(future.result(20)) == values[127::-1] + bytes([n]) * 128
            assert future.state == "finished" and 1e-4 <= future.latency < 20
            assert isinstance(future, concurrent.futures.Future) and "finished" in repr(future)
        assert future.report["segments"] > 0 and future.report["error"] == ""
        # Results are views; their pieces are free again when they are dropped.
        assert not all_free(client)
        kept, futures, future = future.result(), None, None
        assert not all_free(client)
        kept[:1] = bytes(1) if sys.argv[1] == "plain" else 0
        part = kept[3:5]
        kept = None
        assert not all_free(client)
        part = None
        until(lambda: all_free(client))

# What allocate() gives is not copied, and the result lies behind it.
client = gsched.Client(server.socket, **few)
if sys.argv[1] == "numpy":
    import numpy as np
    x = client.allocate("brief", (8, 8), np.float32)
    assert x.shape == (8, 8) and x.dtype == np.float32 and x.ctypes.data % 64 == 0
    x[:] = np.arange(64).reshape(8, 8)
    where = lambda view: view.__array_interface__["data"][0]
    y = client.submit("brief", x).result()
    assert where(y) == where(x) + 256 and bytes(y) == x.tobytes()[::-1]
    x += 1 # once more, in the same place
    z = client.submit("brief", x).result()
    assert where(z) == where(y) and bytes(y) == x.tobytes()[::-1]
    # Other arrays are copied, whatever their layout.
    t = np.arange(64, dtype=np.float32).reshape(8, 8)
    assert bytes(client.submit("brief", t.T).result()) == t.T.tobytes()[::-1]
    assert bytes(client.submit("brief", t[::2].copy(), list(range(16))).result()) \
        == (t[::2].tobytes() + np.arange(16).tobytes())[::-1]
    raises(GschedError, "bytes of inputs cannot be", client.allocate, "brief", (3,), np.float32)
    raises(GschedError, "not an array", client.submit, "brief", object())
    x = y = z = None
else:
    x = client.allocate("brief", (8, 8), "f")
    assert isinstance(x, memoryview) and x.shape == (8, 8) and x.format == "f"
    x[1, 2] = 5.0
    y = client.submit("brief", x).result()
    assert isinstance(y, memoryview) and bytes(y) == x.tobytes()[::-1]
    free = client._state.pieces[gsched._client._address_of(x.cast("B"))]
    assert free.size == 512
    x[1, 2] = 6.0
    assert bytes(client.submit("brief", x).result()) == x.tobytes()[::-1] == bytes(y)
    raises(GschedError, "bytes of inputs cannot be", client.allocate, "brief", (3,), "f")
    raises(GschedError, "not an array", client.submit, "brief", 5)
    x = y = free = None
until(lambda: all_free(client))

# Every kind of end.
raises(GschedError, "255 bytes of inputs, expected 256", client.submit, "brief", bytes(255))
raises(GschedError, "brief, endless, failing", client.submit, "none")
raises(GschedError, "brief\\x00x', expected a name", client.submit, "brief\0x", bytes(256))
raises(GschedError, "deadline: -1, expected seconds", client.submit, "endless", deadline=-1)
for deadline in (10**400, 10**5000, "1", float("nan")):
    raises(GschedError, ", expected seconds from 0", client.submit, "endless", deadline=deadline)
future = client.submit("failing")
raises(GschedError, "out of order", future.result, 20)
assert future.state == "failed" and future.report["reason"] == "job_failed"
future = client.submit("endless", deadline=1e-3)
assert isinstance(future.exception(20), GschedError)
assert future.state == "rejected" and future.report["reason"] == "deadline"
future = client.submit(gsched.ClientModel("gone", 77, 0, 0))
raises(GschedError, "unknown model", future.result, 20)
assert future.state == "refused" and future.report["reason"] == "unknown_model"
big = gsched.ClientModel("big", brief.id, 1 << 20, 0)
assert raises(GschedError, "free in an arena", client.submit, big, bytes(1 << 20)).code == 11
x = client.allocate("brief")
endless = [client.submit("endless") for _ in range(8)]
assert raises(GschedError, "8 requests", client.submit, "endless").code == 11
last = endless.pop()
assert last.cancel()
raises(CancelledError, "", last.result, 20)
twice = [client.submit("brief", x)]
assert twice[0].result(20) is not None
assert client.in_flight == 7
raises(TimeoutError, "", endless[0].result, 0.01)
assert not endless[0].wait(0.01) and not endless[0].done() and not endless[0].running()
assert endless[0].state == "pending" and endless[0].latency is None

# Cancellation: True once asked for, and the future ends as cancelled.
assert endless[0].cancel() and endless[0].cancelled() and endless[0].cancel()
raises(CancelledError, "", endless[0].result, 20)
raises(CancelledError, "", endless[0].exception, 20)
assert not twice[0].cancel() and not twice[0].cancelled()
done, rest = concurrent.futures.wait(endless, 0.01, concurrent.futures.FIRST_COMPLETED)
assert done == {endless[0]}
for future in endless:
    future.cancel()
assert set(concurrent.futures.as_completed(endless, 20)) == set(endless)
assert all(f.cancelled() and f.state == "cancelled" for f in endless)
for n in range(60): # also where the server has finished first
    future = client.submit("brief", values)
    time.sleep(n * 5e-6)
    if future.cancel():
        raises(CancelledError, "", future.result, 20)
        assert future.state == "cancelled"
    else:
        assert bytes(future.result()) == values[::-1] and not future.cancelled()
endless = twice = future = done = rest = x = None

# Callbacks, on the thread that reads; one that raises is logged, and the next ones come.
logging.disable(logging.CRITICAL)
seen = []
def saw(future):
    seen.append(threading.current_thread().name)
    if len(seen) == 1:
        client.submit("brief", values).add_done_callback(saw) # from within
        raise ValueError("of a callback")
client.submit("brief", values).add_done_callback(saw)
until(lambda: len(seen) == 2)
future = client.submit("endless")
future.add_done_callback(lambda f: sys.exit(3))
future.cancel()
raises(CancelledError, "", future.result, 20)
future = None
assert bytes(client.submit("brief", values).result(20)) == values[::-1]
assert set(seen) <= {"gsched client", "MainThread"}, seen
logging.disable(logging.NOTSET)

async def several():
    answers = await asyncio.gather(*[asyncio.wrap_future(client.submit("brief", values))
                                     for _ in range(5)])
    assert all(bytes(a) == values[::-1] for a in answers)
    waits = asyncio.wrap_future(client.submit("endless"))
    await asyncio.sleep(0)
    waits.cancel()
asyncio.run(several())
until(lambda: client.in_flight == 0)
until(lambda: all_free(client))

# Many threads.
def ask(seed):
    mine = bytes([seed]) * 255 + b"x"
    for _ in range(20):
        assert bytes(client.submit("brief", mine).result(20)) == mine[::-1]
    return True
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    assert all(pool.map(ask, range(6)))
until(lambda: all_free(client))

# A child made by fork() is refused, frees nothing of its parent's, and ends; its own client works.
held, x = client.submit("endless"), client.allocate("brief")
child = os.fork()
if child == 0:
    try:
        for call in (lambda: client.models, lambda: client.in_flight, lambda: client.allocate("brief"),
                     lambda: client.submit("endless"), held.result, held.exception, held.wait):
            raises(GschedError, "fork", call)
        assert not held.cancel()
        client.close()
        del client, held, x
        gc.collect()
        with gsched.Client(server.socket, **few) as own:
            assert bytes(own.submit("brief", values).result(20)) == values[::-1]
        os._exit(0)
    except BaseException as e:
        print("in the child:", repr(e), flush=True)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert bytes(client.submit("brief", values).result(20)) == values[::-1]
assert not held.done()

# close: waits for results, or cancels; arrays outlive the client.
futures = [client.submit("brief", values) for _ in range(5)]
held.cancel()
client.close()
assert all(f.done() and f.state == "finished" for f in futures)
assert held.cancelled() and held.done()
client.close()
late = gsched.Client(server.socket, **few)
left = late.submit("endless")
late.close(timeout=0.05)
assert left.cancelled() and left.done()
for call in (lambda: client.submit("brief", values), lambda: client.allocate("brief"),
             lambda: client.models):
    assert raises(GschedError, "the client is closed", call).code == 6
x[:] = values if sys.argv[1] == "plain" else 7
assert bytes(futures[0].result()) == values[::-1]
raises(ZeroDivisionError, "", lambda: exec("""
with gsched.Client(server.socket, **few) as other:
    left = other.submit("endless")
    1 / 0
""", globals()))
assert left.cancelled() and left.done()
dropped = gsched.Client(server.socket, **few)
reader, left = dropped._state.reader, dropped.submit("endless")
del dropped
gc.collect()
raises(CancelledError, "", left.result, 20)
reader.join(20)
assert not reader.is_alive()
for _ in range(20): # a circle of garbage, of which the pieces may be finalized last
    circle = {"other": gsched.Client(server.socket, **few)}
    circle |= {"result": circle["other"].submit("brief", values).result(20), "self": circle}
    del circle
    gc.collect()
del client, held, x, futures, left, late, other
gc.collect()
server.end()

# The server is killed: every future ends, once, and says that its outcome is unknown.
for wait in ("hybrid", "polling", "waiting"):
    server = Server()
    client = gsched.Client(server.socket, wait=wait)
    ends, futures = [], []
    for n in range(40):
        futures.append(client.submit("endless" if n % 2 else "brief", *([] if n % 2 else [values])))
        futures[-1].add_done_callback(lambda f: ends.append(f))
    cancelled = client.submit("endless")
    server.kill()
    assert cancelled.cancel() or cancelled.done()
    for future in futures:
        if future.exception(20) is None:
            assert bytes(future.result()) == values[::-1]
        else:
            assert future.state == "unknown" and future.exception().code == 6
            assert "has gone" in str(future.exception()) and "outcome is unknown" in str(future.exception())
    until(lambda: len(ends) == 40)
    assert len(set(ends)) == 40
    assert raises(GschedError, "has gone", client.submit, "brief", values).code == 6
    client.close()

# A program that ends with requests in flight does not hang; Ctrl-C interrupts a wait.
server = Server()
program = f"""
import gsched, os, signal, threading
client = gsched.Client({server.socket!r})
future = client.submit("endless")
future.add_done_callback(lambda f: print("at exit:", f.state))
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    future.result()
except KeyboardInterrupt:
    print("interrupted")
"""
said = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=30)
assert said.stdout == "interrupted\nat exit: cancelled\n" and not said.stderr, said

# The README's example.
import re
with open(os.path.join(os.path.dirname(gsched.__file__), "..", "README.md")) as readme:
    text = readme.read()
section = re.search(r"\n## Clients\n(.*?)(\n## |$)", text, re.S)[1]
for code in re.findall(r"```python\n(.*?)```", section, re.S):
    if sys.argv[1] == "numpy":
        exec(code.replace("/run/gsched.sock", server.socket).replace("resnet18", "brief")
             .replace("(1, 64)", "(8, 8)"), {})
server.end()
assert "torch" not in sys.modules and gsched._abi.library is None
print(f"clients of Python are as they should be, {sys.argv[1]}")
PY
"$python" -X dev "$work/client.py" plain
if "$python" -c 'import numpy' 2>/dev/null; then
  "$python" -X dev "$work/client.py" numpy
else
  echo "no numpy: not tested with it"
fi
