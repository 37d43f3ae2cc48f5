#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Futures of the Python package are those of concurrent.futures: callbacks, wait, as_completed, asyncio,
# cancellation; and what they cost. The library and torch only play their parts.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"

cat >"$work/futures.py" <<'PY'
import asyncio, concurrent.futures, contextlib, ctypes, gc, logging, os, sys, threading, time, weakref
import gsched, torch

played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
number = lambda name: ctypes.c_int.in_dll(played, name)
one = lambda x=0, **how: torch.tensor([float(x)] * 4, **how)
values = lambda answer: list(answer.values)

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

@contextlib.contextmanager
def held(as_state=1):
    """Requests are under way until the block ends."""
    number("holding").value = 1
    try:
        yield
    finally:
        number("holding").value = 0
        played.end_held(as_state)

server = gsched.Server(policy="fifo")
model = server.add_model(lambda x: x + 1.0, one(), name="plus", instances=2)

# Without callbacks nothing is watched, and no thread starts.
threads = threading.active_count()
with held():
    futures = [server.submit(model, one(i)) for i in range(4)]
    assert not any(f.done() or f.running() or f.cancelled() for f in futures)
assert [values(f.result())[0] for f in futures] == [1.0, 2.0, 3.0, 4.0]
assert all(isinstance(f, concurrent.futures.Future) for f in futures)
assert number("watches").value == number("collects").value == 0
assert threading.active_count() == threads and "finished" in repr(futures[0])

# done() keeps the interpreter lock: another thread that takes it has it for up to 5 ms. What may wait does not.
for name, keeps in (("gsched_status", True), ("gsched_submit", False), ("gsched_wait", False)):
    function = getattr(gsched._abi.library, name)
    assert bool(type(function)._flags_ & ctypes._FUNCFLAG_PYTHONAPI) == keeps, name

# A callback runs once: on the waiter's thread, or at once if the request has ended.
seen = []
def saw(future):
    seen.append((future, threading.current_thread().name, future.result()))
futures[0].add_done_callback(saw)
assert seen == [(futures[0], "MainThread", futures[0].result())]
assert number("watches").value == 0 and threading.active_count() == threads
seen.clear()
with held():
    future = server.submit(model, one(5))
    future.add_done_callback(saw)
    future.add_done_callback(saw)
    assert not seen and "pending" in repr(future) and not future.done()
until(lambda: len(seen) == 2)
assert {name for _, name, _ in seen} == {"gsched waiter"} and values(seen[0][2]) == [6.0] * 4
assert number("watches").value == 1, "two callbacks, one of them after it was watched"
watches = number("watches").value
future.add_done_callback(saw)
assert len(seen) == 3 and seen[2][1] == "MainThread" and number("watches").value == watches

# result() does not wait for the waiter's thread, nor does done().
blocked, goes_on = threading.Event(), threading.Event()
with held():
    slow, quick = server.submit(model, one(1)), server.submit(model, one(2))
    slow.add_done_callback(lambda _: (blocked.set(), goes_on.wait(20)))
    quick.add_done_callback(saw)
assert blocked.wait(20) and len(seen) == 3
assert values(quick.result(1)) == [3.0] * 4 and quick.done() and len(seen) == 3
goes_on.set()
until(lambda: len(seen) == 4)

# What a callback raises is logged; other callbacks run all the same.
class Log(logging.Handler):
    lines = []
    def emit(self, record): self.lines.append(record.getMessage())
for name in ("concurrent.futures", "gsched"):
    logging.getLogger(name).addHandler(Log())
    logging.getLogger(name).propagate = False
def fails(future): raise KeyError("of a callback")
def leaves(future): sys.exit(1)
with held():
    future = server.submit(model, one(1))
    for f in (fails, leaves, saw):
        future.add_done_callback(f)
    other = server.submit(model, one(2))
    other.add_done_callback(saw)
until(lambda: len(seen) == 5)
assert seen[-1][0] is other and len(Log.lines) == 2, Log.lines

# Callbacks may submit, and what they submit has callbacks, too.
chain = []
def next_one(future):
    chain.append(values(future.result())[0])
    if len(chain) < 5:
        server.submit(model, one(chain[-1])).add_done_callback(next_one)
server.submit(model, one(0)).add_done_callback(next_one)
until(lambda: len(chain) == 5)
assert chain == [1.0, 2.0, 3.0, 4.0, 5.0]

# wait and as_completed.
with held():
    futures = [server.submit(model, one(i)) for i in range(3)]
    done, left = concurrent.futures.wait(futures, timeout=0.02)
    assert not done and left == set(futures)
    raises(concurrent.futures.TimeoutError, "3 (of 3)", lambda: list(
        concurrent.futures.as_completed(futures, timeout=0.02)))
    early = futures[1]
    assert early.cancel()
    done, left = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED)
    assert done == {early} and left == {futures[0], futures[2]}
    late = threading.Timer(0.05, lambda: played.end_held(1))
    late.start()
    assert set(concurrent.futures.as_completed(futures, timeout=20)) == set(futures)
done, left = concurrent.futures.wait(futures, timeout=20)
assert done == set(futures) and not left
unseen = [server.submit(model, one(i)) for i in range(200)] # ended, and nothing has asked yet
assert set(concurrent.futures.as_completed(unseen, timeout=20)) == set(unseen)
unseen = [server.submit(model, one(i)) for i in range(3)]
assert concurrent.futures.wait(unseen, timeout=20, return_when="FIRST_EXCEPTION").not_done == set()
number("ends_as").value = 2
bad = server.submit(model, one(1))
number("ends_as").value = 1
with held():
    good = server.submit(model, one(1))
    done, left = concurrent.futures.wait([good, bad], timeout=20, return_when="FIRST_EXCEPTION")
    assert done == {bad} and left == {good}

# Ends: finished, failed, rejected and cancelled, by callback.
for state, word in ((1, "finished"), (2, "failed"), (3, "rejected"), (4, "cancelled")):
    with held(state):
        future = server.submit(model, one(1))
        ended = threading.Event()
        future.add_done_callback(lambda f: (seen.append(f), ended.set()))
    assert ended.wait(20) and seen[-1] is future and future.state == word
    assert future.cancelled() == (word == "cancelled") == future.cancel()
    if word == "finished":
        assert future.exception() is None
    elif word == "cancelled":
        raises(concurrent.futures.CancelledError, "told", future.result)
    else:
        assert str(future.exception()) == "because it was told to"

# Cancellation counts, also where the GPU was faster; the future is done when the GPU is.
library = gsched.load_library()
cancel = library.gsched_cancel
library.gsched_cancel = lambda ticket: 0 # granted, and the request goes on
with held():
    future, plain = server.submit(model, one(1)), server.submit(model, one(1))
    called = []
    future.add_done_callback(called.append)
    for f in (future, plain):
        assert f.cancel() and f.cancelled() and not f.done() and f.state == "pending" and f.cancel()
        raises(TimeoutError, "no answer", f.result, 0.01)
    assert not called
until(lambda: called == [future])
for f in (future, plain):
    assert f.done() and f.state == "cancelled" and f.report["state"] == "finished" and f.cancel()
    raises(concurrent.futures.CancelledError, "", f.result)
    assert concurrent.futures.wait([f], timeout=20).done == {f}
def ended_first(ticket):
    played.end_held(1)
    server_future.done() # another thread sees its end before cancel() goes on
    return 0
library.gsched_cancel = ended_first
with held():
    server_future = server.submit(model, one(1))
    assert not server_future.cancel() and not server_future.cancelled()
assert values(server_future.result()) == [2.0] * 4
library.gsched_cancel = cancel

# asyncio.
async def serve():
    with held():
        futures = [server.submit(model, one(i)) for i in range(3)]
        wrapped = [asyncio.wrap_future(f) for f in futures]
        ticks = 0
        threading.Timer(0.05, lambda: played.end_held(1)).start()
        while not all(w.done() for w in wrapped):
            await asyncio.sleep(0.001) # the loop goes on meanwhile
            ticks += 1
        assert ticks > 5
        answers = await asyncio.gather(*wrapped)
    assert [values(a)[0] for a in answers] == [1.0, 2.0, 3.0]
    number("ends_as").value = 2
    bad = asyncio.wrap_future(server.submit(model, one(1)))
    number("ends_as").value = 1
    try:
        await bad
        raise AssertionError("no error")
    except gsched.GschedError as e:
        assert "told" in str(e)
    with held():
        future = server.submit(model, one(1))
        wrapped = asyncio.wrap_future(future)
        wrapped.cancel()
        try:
            await wrapped
            raise AssertionError("not cancelled")
        except asyncio.CancelledError:
            pass
        await asyncio.sleep(0) # the loop passes the cancellation on
        assert future.cancelled()
        try:
            await asyncio.wait_for(asyncio.wrap_future(server.submit(model, one(1))), 0.02)
            raise AssertionError("no timeout")
        except TimeoutError:
            pass
asyncio.run(asyncio.wait_for(serve(), 30))

# Many threads register and wait for requests that end meanwhile: each callback runs once.
counts, lock = {}, threading.Lock()
def count(future):
    with lock:
        counts[future] = counts.get(future, 0) + 1
def hammer():
    for i in range(100):
        future = server.submit(model, one(i))
        ender = threading.Thread(target=future.add_done_callback, args=(count,))
        ender.start()
        future.add_done_callback(count)
        if i % 3 == 0:
            played.end_held(1)
        assert values(future.result(20))[0] == i + 1.0
        ender.join()
number("holding").value = 0
hammers = [threading.Thread(target=hammer) for _ in range(4)]
for t in hammers: t.start()
for t in hammers: t.join()
until(lambda: len(counts) == 400 and set(counts.values()) == {2})
counts.clear()

# Memory: the waiter keeps no future; what is watched stays until its end, though nothing refers to it.
with held():
    future = server.submit(model, one(1, pinned=True))
    future.add_done_callback(lambda f: seen.append("gone"))
    gone = [weakref.ref(future), weakref.ref(future._outputs)]
    del future
    gc.collect()
    assert all(g() is not None for g in gone)
until(lambda: seen[-1] == "gone")
del seen[:], futures, done, left, unseen, early, f, good, bad, quick, slow, other, server_future, plain
del called, late
for _ in range(4):
    server.submit(model, one(1)).result()
until(lambda: (gc.collect(), all(g() is None for g in gone))[1])
until(lambda: not server._state.watched and not server._state.pending)
until(lambda: number("tickets").value <= 1)
gc.disable() # a future goes with its last reference, not with a collection
future = server.submit(model, one(1))
future.result()
future.add_done_callback(lambda f: None)
gone = weakref.ref(future)
del future
assert gone() is None
gc.enable()

# A closed server has run the callbacks; one of them may close it.
slow = gsched.Server(policy="fifo")
added, ran = slow.add_model(model.captured), []
with held():
    for _ in range(3):
        slow.submit(added, one(1)).add_done_callback(lambda f: (time.sleep(0.05), ran.append(f.state)))
    slow.close()
    assert ran == ["finished"] * 3, ran
waiter = slow._state.waiter
released = number("released").value
del slow, added
gc.collect()
until(lambda: not waiter.is_alive() and number("released").value == released + 1)
slow = gsched.Server(policy="fifo")
added, ran = slow.add_model(model.captured), []
with held():
    slow.submit(added, one(1)).add_done_callback(lambda f: (slow.close(), ran.append(f.state)))
until(lambda: ran == ["finished"])
slow.close()
slow = gsched.Server(policy="fifo")
added, ran = slow.add_model(model.captured), []
with held():
    for _ in range(2):
        slow.submit(added, one(1)).add_done_callback(lambda f: ran.append(f.state))
    slow.close(cancel=True)
until(lambda: ran == ["cancelled"] * 2)
late = slow.submit
raises(gsched.GschedError, "closed", late, added, one(1))

# A server that is dropped cancels, and its callbacks run; also if its waiter drops it.
dropped, ran = gsched.Server(policy="fifo"), []
added = dropped.add_model(model.captured)
with held():
    dropped.submit(added, one(1)).add_done_callback(lambda f: ran.append(f.state))
    released = number("released").value
    del dropped
    gc.collect()
    until(lambda: ran == ["cancelled"] and number("released").value == released + 1)
box = [gsched.Server(policy="fifo")]
added, released = box[0].add_model(model.captured), number("released").value
with held():
    box[0].submit(added, one(1)).add_done_callback(lambda f: (box.clear(), gc.collect()))
until(lambda: number("released").value == released + 1)

# Where no thread starts, as at the end of the interpreter, the call says so and nothing stays behind.
start = threading.Thread.start
def none_starts(self): raise RuntimeError("can't start new thread")
fresh = gsched.Server(policy="fifo")
added = fresh.add_model(model.captured)
with held():
    future = fresh.submit(added, one(1))
    threading.Thread.start = none_starts
    raises(RuntimeError, "can't start", future.add_done_callback, saw)
    threading.Thread.start = start
    assert not fresh._state.watched
    ran = threading.Event()
    future.add_done_callback(lambda f: ran.set())
assert ran.wait(20)

# A child made by fork() may not register.
number("holding").value = 1
future = server.submit(model, one(1))
future.add_done_callback(lambda f: None)
plain = server.submit(model, one(1))
child = os.fork()
if child == 0:
    raises(gsched.GschedError, "fork()", plain.add_done_callback, saw)
    raises(gsched.GschedError, "fork()", concurrent.futures.wait, [plain], 0)
    assert not plain.cancel()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
number("holding").value = 0
played.end_held(1)

# A channel offers models by name, and closes with its server.
other = gsched.Server(policy="fifo")
mine = other.add_model(lambda x: x + 1.0, one(), name="plus")
with other.listen("@played", [mine], mode=0o660, rate=5) as channel:
    assert channel.socket == "@played"
    raises(gsched.GschedError, "offered already", channel.offer, mine, "again")
    raises(gsched.GschedError, "another server's model", channel.offer, model)
    channel.withdraw(mine)
    raises(gsched.GschedError, "not offered", channel.withdraw, mine)
raises(gsched.GschedError, "the channel is closed", channel.offer, mine)
raises(gsched.GschedError, "a path, expected one", other.listen, "")
raises(gsched.GschedError, "mode: expected at most 0777", other.listen, "@x", mode=0o7777)
raises(gsched.GschedError, "rate: 'fast', expected a number", other.listen, "@x", rate="fast")
raises(gsched.GschedError, "rate: 1000", other.listen, "@x", rate=10**400)
raises(gsched.GschedError, "mode: 4294967296, expected a number", other.listen, "@x", mode=1 << 32)
raises(gsched.GschedError, "in_flight: -1, expected a number", other.listen, "@x", in_flight=-1)
raises(gsched.GschedError, "a zero byte", other.listen, "a\0b")
left = other.listen("@left")
other.close()
assert left._handle is None
left.close() # again: nothing

# serve() ends at a signal, or when its server is closed, and needs a model.
import signal
raises(gsched.GschedError, "models: none", gsched.serve, {}, "@none")
before = signal.getsignal(signal.SIGTERM)
gsched.serve({"plus": (lambda x: x + 1.0, one())}, "@served", policy="fifo",
             ready=lambda server: os.kill(os.getpid(), signal.SIGTERM))
assert signal.getsignal(signal.SIGTERM) is before
thread = threading.Thread(target=gsched.serve, args=({"plus": (lambda x: x, one())}, "@served"),
                          kwargs={"ready": lambda server: server.close()})
thread.start()
thread.join(20)
assert not thread.is_alive()

# At the end of the process what is under way is cancelled, and callbacks run.
number("holding").value = 1
server.submit(model, one(1)).add_done_callback(lambda f: print("at exit:", f.state, flush=True))
print("futures are as they should be")
PY
timeout 120 python3 "$work/futures.py" >"$work/out" || { cat "$work/out"; exit 1; }
cat "$work/out"
grep -qx 'at exit: cancelled' "$work/out" || { echo "no callback at exit"; exit 1; }
