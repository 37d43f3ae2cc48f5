#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package: models are captured in batches and served by a plan, and what cannot be served so is
# refused in one line. The library and torch only play their parts.
set -euo pipefail
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"

cat >"$work/plan.py" <<'PY'
import concurrent.futures, ctypes, os, pathlib
import gsched, torch, warnings

warnings.simplefilter("error")

played = ctypes.CDLL(os.environ["GSCHED_C_LIBRARY"])
numbers = lambda name, kind, n: list((kind * n).in_dll(played, name))
def raises(kind, text, call, *args, **named):
    try:
        call(*args, **named)
    except kind as e:
        assert text in str(e) and "\n" not in str(e), repr(e)
        return e
    raise AssertionError(f"no {kind.__name__} that says {text!r}")

one = lambda x=0: torch.Tensor((1, 4), [float(x)] * 4)
adds = lambda x: x + 1.0
def models():
    return [gsched.PlanModel(adds, one(), slo=0.02, rate=300, name="resnet50", batches=(1, 2, 4)),
            gsched.PlanModel(adds, (one(),), slo=0.005, name="lenet", batches=[1, 8], instances=2)]

with gsched.PlanServer(models(), "latency.csv", planner="ideal+share", interference="law.json", solo="solo.csv",
                       profiles=pathlib.Path("mine"), period=5, headroom=1.5, sms=120, learns=1) as server:
    opened = gsched._abi.gsched_plan_options.in_dll(played, "plan_opened")
    texts = (ctypes.c_char * 256).in_dll(played, "plan_texts")
    assert texts.value == b"latency.csv ideal+share law.json solo.csv mine"
    assert (opened.period_us, opened.headroom, opened.sms, opened.replans) == (5e6, 1.5, 120, 1)
    assert opened.learns == 1
    libraries = (ctypes.c_char * 256).in_dll(played, "plan_libraries").value.split(b",")
    assert {b"torch=played", b"torch_cuda=13.0", b"cudnn=91900"} <= set(libraries), libraries
    assert numbers("plan_graphs", ctypes.c_int, 2) == [9, 4]
    batches = (ctypes.c_int * 64 * 8).in_dll(played, "plan_batches")
    assert batches[0][:9] == [1] * 3 + [2] * 3 + [4] * 3 and batches[1][:4] == [1, 1, 8, 8]
    assert numbers("plan_slo_us", ctypes.c_double, 2) == [20000, 5000]
    assert numbers("plan_rate", ctypes.c_double, 2) == [300, 0]
    resnet, lenet = server.models
    assert (resnet.name, lenet.name, lenet.index, lenet.instances) == ("resnet50", "lenet", 1, 2)
    futures = [server.submit(m, one(i)) for i in range(8) for m in (resnet, lenet)]
    for i, f in enumerate(futures):
        assert f.result().shape == (1, 4) and list(f.result().values) == [i // 2 + 1.0] * 4
    assert len(concurrent.futures.wait(futures).done) == 16
    assert ctypes.c_int.in_dll(played, "last_client").value == 0
    raises(gsched.GschedError, "resnet50: input 0 is float32[2, 4], expected float32[1, 4]",
           server.submit, resnet, torch.Tensor((2, 4)))
    raises(gsched.GschedError, "resnet50: no inputs, expected those of one request", server.submit,
           resnet, None)
    report = server.report()
    assert (report["partitions"], report["sms"], report["factor"]) == (3, 120, 1.5)
    assert (report["failed_plans"], report["last_failure"]) == (1, "no graph is left")
    assert (report["warning"], report["beyond_fit"]) == ("", "graphs")
    assert (report["idle_sms"], report["reason"]) == (12, "times")
    assert lenet.report()["arrived"] == 6 and lenet.report()["p99"] == 0.0025
    said = lenet.report()
    assert (said["sensitivity"], said["pressure"], said["learned_from"]) == (1.2, 0.9, 8)
    assert (said["sensitivity_error"], said["pressure_error"]) == (0.3, 0.4)
    assert said["host_part"] == 0.02
    assert (said["time_factor"], said["rate_factor"], said["too_slow"]) == (1.6, 1.2, 1)
    assert (said["partitions"], said["sms"]) == (2, 65)
    raises(KeyError, "p99, in seconds", lambda: lenet.report()["p99_us"])
    raises(gsched.GschedError, "add_model: of a server of a plan", server.add_model, adds, one())
    assert server.policy == "plan"
raises(gsched.GschedError, "closed", server.submit, resnet, one())

# Memory is pinned for what arrives within twice the goals: 13 and 1 requests of an input and an output, of
# which 64 are in a block.
pinned, plain = [], torch.empty_strided
def counting(shape, *rest, **how):
    pinned.extend([tuple(shape)] * how.get("pin_memory", False))
    return plain(shape, *rest, **how)
torch.empty_strided = counting
with gsched.PlanServer(models(), "latency.csv"):
    assert pinned.count((1, 4)) == 14 and pinned.count((256,)) == 2 and len(pinned) == 16, pinned
pinned.clear()
with gsched.PlanServer([gsched.PlanModel(adds, one(), slo=1e300, rate=1e300, name="m")], "latency.csv"):
    assert len(pinned) == 256 + 256 // 64, len(pinned)
torch.empty_strided = plain

# On several GPUs a module is copied, and another callable is given for each.
class Adds(torch.nn.Module):
    def __call__(self, x): return x + 1.0
scales = Adds()
twice = [gsched.PlanModel(scales, one(), slo=1, name="scales", batches=(1, 2), instances=1),
         gsched.PlanModel({5: adds, 3: adds}, one(), slo=1, batches=(1,), instances=2)]
with gsched.PlanServer(twice, "latency.csv", gpu=[3, 5]) as server:
    assert server.gpu == 3 and [m.name for m in server.models] == ["scales", "<lambda>"]
    assert opened.gpus_count == 2 and numbers("plan_gpus", ctypes.c_int, 2) == [3, 5]
    places = (ctypes.c_int * 64 * 8).in_dll(played, "plan_places")
    assert places[0][:4] == [0, 0, 1, 1] and places[1][:4] == [0, 0, 1, 1]
    assert batches[0][:4] == [1, 2, 1, 2] and batches[1][:4] == [1, 1, 1, 1]
    graphs = server._state.models[0][0]
    assert graphs[0][1]._module is scales and graphs[1][1]._module is not scales
    assert [g[1].gpu for g in graphs] == [3, 5]
    assert list(server.submit(server.models[0], one(4)).result().values) == [5.0] * 4

# What is refused, and leaves nothing behind.
plan = lambda *m, **o: gsched.PlanServer(m or models(), "latency.csv", **o)
with plan() as plain:
    assert texts.value == b"latency.csv best - - -"
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    with plan(planner="elastic") as older:
        assert older.report()["warning"].startswith("table latency.csv")
assert [(w.category, str(w.message), w.filename) for w in told] == [
    (RuntimeWarning, "table latency.csv: measured with driver 1, not 2 as here", __file__)]
raises(gsched.GschedError, 'option "share", expected one of sms', plan, share=True)
raises(gsched.GschedError, "none.csv: cannot be read", gsched.PlanServer, models(), "none.csv")
raises(gsched.GschedError, "period 2000, expected 0.001 to 1000, in seconds", plan, period=2000)
raises(gsched.GschedError, "period_us: expected period, in seconds", plan, period_us=5)
raises(gsched.GschedError, 'option "lanes", expected one of sms', plan, lanes=8)
for options, text in (({"planner": "best\0"}, "planner: 'best\\x00', expected a name"), ({"gpu": 1 << 32}, "gpu: 42"),
                      ({"interference": "a\0b"}, "interference: a zero byte in its path, expected none"),
                      ({"solo": "\0"}, "solo: a zero byte"), ({"profiles": "\0"}, "profiles: a zero byte"),
                      ({"headroom": "1"}, "headroom: '1', expected a number")):
    raises(gsched.GschedError, text, plan, **options)
raises(gsched.GschedError, "table: a zero byte in its path", gsched.PlanServer, models(), "latency.csv\0")
for slo, rate, name, text in ((10**400, 1, "m", "m: slo: 1000"), ("1", 1, "m", "m: slo: '1', expected a number"),
                              (1, 10**400, "m", "m: rate: 1000"), (1, "300", "m", "m: rate: '300', expected a number"),
                              (1, 1, "m\0x", "name: 'm\\x00x', expected a name without zero bytes")):
    raises(gsched.GschedError, text, plan, gsched.PlanModel(adds, one(), slo, rate, name))
like = lambda call, x=None, **o: gsched.PlanModel(call, one() if x is None else x, slo=1, name="m", **o)
raises(gsched.GschedError, "m: batches (2, 4), expected some that rise from 1", plan,
       like(adds, batches=(2, 4)))
raises(gsched.GschedError, "m: batches (1, 4, 2), expected some that rise", plan,
       like(adds, batches=(1, 4, 2)))
raises(gsched.GschedError, "m: example float32[4], expected a first dimension of 1", plan,
       like(adds, torch.tensor([1.0] * 4)))
raises(gsched.GschedError, "m: output float32[1, 4] of a batch of 2, expected the requests' tensors",
       plan, like(lambda x: (x + 1.0, torch.Tensor((1, 4), cuda=True))[1]))
cache = torch.Tensor((1, 4), cuda=True)
raises(gsched.GschedError, "m: writes ", plan, like(lambda x: (cache.add_(x), x + 1.0)[1], instances=1))
class Stuck(Adds):
    def __deepcopy__(self, memo): raise TypeError("it holds a lock")
for model, text in ((like(adds), "m: a callable for 2 GPUs, expected a mapping with one for each"),
                    (like({0: adds}), "m: modules of GPUs [0], expected those of [0, 1]"),
                    (like(Stuck()), "m: its module cannot be copied to GPU 1 (it holds a lock), expected a mapping")):
    raises(gsched.GschedError, text, plan, model, gpu=(0, 1))
for gpu, text in (([], "gpu: [], expected one GPU at least"), ([1, 1], "gpu: [1, 1], expected one GPU at least, each"),
                  ([0, "1"], "gpu: '1', expected"), ("0", "gpu: '0', expected")):
    raises(gsched.GschedError, text, plan, gpu=gpu)
print("plans are served, and what cannot be is refused")
PY
python3 "$work/plan.py"
