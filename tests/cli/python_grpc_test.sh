#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Python server over gRPC, with a library and a torch that only play their parts: its messages are those of the
# published protocol, clients made from it are understood, and each wrong request has its status and one line.
set -euo pipefail
python=
for each in /usr/bin/python3 python3; do
  "$each" -c 'import google.protobuf, grpc.aio' 2>/dev/null && { python=$each; break; }
done
[ -n "$python" ] && command -v protoc >/dev/null || { echo 'no grpcio for Python, or no protoc: not tested'; exit 0; }
source "$GSCHED_SOURCE_DIR/tests/cli/pytorch_played.sh"
cd "$work"
protoc --proto_path="$GSCHED_SOURCE_DIR/tools/gsched_server/network" --python_out=. --descriptor_set_out=all.bin \
  open_inference.proto

timeout 100 "$python" - <<'PY'
# The package's messages are the published ones.
from google.protobuf import descriptor_pb2
from gsched import _open_inference

published = descriptor_pb2.FileDescriptorSet.FromString(open("all.bin", "rb").read()).file[0]
def in_order(message):
    nested = sorted(message.nested_type, key=lambda m: m.name)
    nested = [type(m).FromString(m.SerializeToString()) for m in nested]
    del message.nested_type[:]
    message.nested_type.extend(nested)
    for field in message.field:
        field.ClearField("json_name")
    for one in message.nested_type:
        in_order(one)
ours = _open_inference.file_descriptor()
for file in (ours, published):
    for message in file.message_type:
        in_order(message)
del published.service[:]
assert ours == published
PY

cat >client.py <<'PY'
import struct, grpc
import open_inference_pb2 as pb

class Stub:
    """The calls of a client, made from the published protocol."""
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        for method in pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods:
            request, response = (getattr(pb, t.name) for t in (method.input_type, method.output_type))
            make = self.channel.stream_stream if method.name == "ModelStreamInfer" else self.channel.unary_unary
            setattr(self, method.name, make(f"/inference.GRPCInferenceService/{method.name}",
                    request_serializer=request.SerializeToString, response_deserializer=response.FromString))
        health = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.health = lambda: health(b"")[1]

def request(values=(1, 2, 3, 4), model="plus", **more):
    r = pb.ModelInferRequest(model_name=model, **more)
    r.inputs.add(name="input", datatype="FP32", shape=[4])
    r.raw_input_contents.append(struct.pack("<4f", *values))
    return r

def floats(response):
    assert [(o.name, o.datatype, list(o.shape)) for o in response.outputs] == [("output", "FP32", [4])], response
    return list(struct.unpack("<4f", response.raw_output_contents[0]))
PY

timeout 100 "$python" - <<'PY'
import concurrent.futures, ctypes, gc, os, threading, time
import grpc, torch, gsched
from client import Stub, floats, pb, request

lib = gsched.load_library()
told = lambda name: ctypes.c_int.in_dll(lib, name)
def refused(status, text, call, *arguments, **how):
    try:
        call(*arguments, **how)
    except grpc.RpcError as e:
        assert e.code().name == status and text in e.details() and "\n" not in e.details(), (e.code(), e.details())
        return e
    raise AssertionError(f"not refused: {text}")
def raises(text, call, *arguments, **how):
    try:
        call(*arguments, **how)
    except gsched.GschedError as e:
        assert text in str(e) and "\n" not in str(e), e
        return
    raise AssertionError(f"no error: {text}")

server = gsched.Server("fifo")
plus = server.add_model(lambda x: x + 1, torch.randn(), name="plus")
two = server.add_model(lambda x, y: {"sum": x + 1}, (torch.randn(), torch.randn()), name="two")
raises("gRPC cannot listen", server.listen_grpc, "no address")
raises("requests: 0, expected", server.listen_grpc, "127.0.0.1:0", requests=0)
raises("message_bytes: -1, expected", server.listen_grpc, "127.0.0.1:0", message_bytes=-1)
raises("weight", server.listen_grpc, "127.0.0.1:0", tenants={"a": 0})
at = server.listen_grpc("127.0.0.1:0", [plus], tenants={"alice": 2.0, "bob": 1.0}, requests=3)
assert at.address.startswith("127.0.0.1:") and not at.address.endswith(":0")
raises("gRPC cannot listen", server.listen_grpc, at.address)
raises("offered already", at.offer, plus)
at.offer(two, "pair")
stub = Stub(at.address)

# The server and its models.
assert stub.ServerLive(pb.ServerLiveRequest()).live and stub.ServerReady(pb.ServerReadyRequest()).ready
assert stub.health() == 1 and stub.ModelReady(pb.ModelReadyRequest(name="plus")).ready
assert stub.ServerMetadata(pb.ServerMetadataRequest()).version == gsched.__version__
index = stub.RepositoryIndex(pb.RepositoryIndexRequest())
assert [(m.name, m.state) for m in index.models] == [("pair", "READY"), ("plus", "READY")]
facts = stub.ModelMetadata(pb.ModelMetadataRequest(name="pair"))
assert [(t.name, t.datatype, list(t.shape)) for t in (*facts.inputs, *facts.outputs)] == [
    ("input_0", "FP32", [4]), ("input_1", "FP32", [4]), ("output", "FP32", [4])], facts
refused("NOT_FOUND", "unknown", stub.ModelReady, pb.ModelReadyRequest(name="none"))
refused("NOT_FOUND", "version \"2\", expected 1", stub.ModelMetadata, pb.ModelMetadataRequest(name="plus", version="2"))

# Requests: raw bytes, typed contents, terms.
said = stub.ModelInfer(request(id="seven"))
assert floats(said) == [2, 3, 4, 5] and said.id == "seven" and said.model_name == "plus", said
assert said.parameters["latency_us"].int64_param >= 0
typed = request()
del typed.raw_input_contents[:]
typed.inputs[0].contents.fp32_contents.extend([5, 6, 7, 8])
typed.outputs.add(name="output")
assert floats(stub.ModelInfer(typed)) == [6, 7, 8, 9]
def with_terms(**terms):
    r = request()
    for name, value in terms.items():
        kind = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}[type(value)]
        setattr(r.parameters[name], kind, value)
    return r
clients = []
for terms, metadata in (({"tenant": "alice"}, ()), ({}, (("gsched-tenant", "bob"),)), ({"tenant": "carol"}, ()), ({}, ())):
    stub.ModelInfer(with_terms(**terms), metadata=metadata)
    clients.append(told("last_client").value)
assert clients[0] != clients[1] and clients[2] == clients[3] and clients[2] not in clients[:2], clients
deadline = ctypes.c_double.in_dll(lib, "last_deadline")
stub.ModelInfer(with_terms(deadline_ms=250))
assert deadline.value == 250e3
stub.ModelInfer(with_terms(deadline_ms=250.5), metadata=(("gsched-deadline-ms", "100"),))
assert deadline.value == 100e3, "the nearer one counts"
stub.ModelInfer(request(), timeout=30)
assert 20e6 < deadline.value < 31e6, deadline.value # in transit it is rounded up
before = told("real_time").value
stub.ModelInfer(with_terms(priority="real_time"))
stub.ModelInfer(request(), metadata=(("gsched-real-time", "true"),))
assert told("real_time").value == before + 2

# What is wrong with a request.
def changed(**how):
    r = request()
    for name, value in how.items():
        if name == "shape":
            r.inputs[0].shape[:] = value
        elif name == "raw":
            r.raw_input_contents[:] = value
        else:
            setattr(r.inputs[0], name, value)
    return r
for bad, text in ((changed(name="image"), "input \"image\": unknown, expected input"),
                  (changed(datatype="FP64"), "datatype \"FP64\", expected FP32"),
                  (changed(shape=[2, 2]), "shape [2, 2], expected [4]"),
                  (changed(raw=[b"123"]), "3 bytes, expected 16"),
                  (changed(raw=[b"", b""]), "raw_input_contents: 2 of them"),
                  (changed(raw=[]), "0 elements in fp32_contents, expected 4"),
                  (pb.ModelInferRequest(model_name="plus"), "input \"input\": missing"),
                  (with_terms(tenant=""), "parameter tenant: ''"), (with_terms(priority="high"), "expected real_time or"),
                  (with_terms(real_time=1), "parameter real_time"), (with_terms(deadline_ms=0), "parameter deadline_ms"),
                  (with_terms(deadline_ms=True), "parameter deadline_ms")):
    refused("INVALID_ARGUMENT", text, stub.ModelInfer, bad)
twice = request()
twice.inputs.append(twice.inputs[0])
twice.raw_input_contents.append(twice.raw_input_contents[0])
refused("INVALID_ARGUMENT", "there twice", stub.ModelInfer, twice)
both = request()
both.inputs[0].contents.fp32_contents.append(1)
refused("INVALID_ARGUMENT", "contents beside", stub.ModelInfer, both)
output = request()
output.outputs.add(name="scores")
refused("INVALID_ARGUMENT", "output \"scores\": unknown", stub.ModelInfer, output)
refused("NOT_FOUND", "unknown", stub.ModelInfer, request(model="none"))
refused("INVALID_ARGUMENT", "parameter deadline_ms: 'soon'", stub.ModelInfer, request(),
        metadata=(("gsched-deadline-ms", "soon"),))

# How requests end.
for state, status in ((2, "INTERNAL"), (3, "DEADLINE_EXCEEDED"), (4, "CANCELLED")):
    told("ends_as").value = state
    refused(status, "because it was told to", stub.ModelInfer, request())
told("ends_as").value = 1
assert floats(stub.ModelInfer(request())) == [2, 3, 4, 5]

# Limits, and a client that cancels.
told("holding").value = 1
calls = [stub.ModelInfer.future(request()) for _ in range(3)]
until = time.monotonic() + 30
while told("held").value < 3 and time.monotonic() < until:
    time.sleep(0.01)
e = refused("RESOURCE_EXHAUSTED", "3 requests are in service, expected fewer", stub.ModelInfer, request())
details = dict(e.trailing_metadata())["grpc-status-details-bin"]
assert b"type.googleapis.com/google.rpc.RetryInfo" in details and b"3 requests are" in details, details
running = list(server._state.pending.values())
assert len(running) >= 3
calls[0].cancel()
until = time.monotonic() + 30
while not any(f.state == "cancelled" for f in running):
    assert time.monotonic() < until, "the request of a cancelled call was not cancelled"
    time.sleep(0.01)
del running
told("holding").value = 0
lib.end_held(1)
assert [floats(c.result()) for c in calls[1:]] == 2 * [[2, 3, 4, 5]]

# A stream: answers as requests end, errors in their places.
answers = list(stub.ModelStreamInfer(iter([request(id="a"), request(id="b", model="none"), request((9, 9, 9, 9), id="c")])))
by_id = {a.infer_response.id: a for a in answers}
assert sorted(by_id) == ["a", "b", "c"] and "unknown" in by_id["b"].error_message
assert floats(by_id["c"].infer_response) == [10, 10, 10, 10]

# Many at once, from threads.
at.withdraw(two)
refused("NOT_FOUND", "unknown", stub.ModelInfer, request(model="pair"))
raises("not offered", at.withdraw, two)
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    assert all(floats(r) == [n + 1] * 4 for n, r in zip(range(60), pool.map(
        lambda n: stub.ModelInfer(request([n] * 4)), range(60))))

# A Unix socket, closed by itself.
with server.listen_grpc(f"unix:{os.getcwd()}/grpc.sock", [plus]) as unix:
    assert floats(Stub(unix.address).ModelInfer(request())) == [2, 3, 4, 5]
refused("UNAVAILABLE", "", Stub(unix.address).ModelInfer, request())

# Closing: not ready while it drains, what is in service is answered, further requests are refused.
told("holding").value, ctypes.c_int.in_dll(lib, "drains").value = 1, 1
call = stub.ModelInfer.future(request())
while not told("held").value:
    time.sleep(0.01)
closing = threading.Thread(target=server.close, kwargs={"timeout": 1.0})
closing.start()
while stub.health() == 1:
    time.sleep(0.01)
assert not stub.ServerReady(pb.ServerReadyRequest()).ready and stub.ServerLive(pb.ServerLiveRequest()).live
refused("UNAVAILABLE", "the server shuts down", stub.ModelInfer, request())
lib.end_held(1)
assert floats(call.result()) == [2, 3, 4, 5]
closing.join()
refused("UNAVAILABLE", "", stub.ModelInfer, request())
at.close()
assert not [t for t in threading.enumerate() if t.name == "gsched grpc"], "its thread ends"
told("holding").value = ctypes.c_int.in_dll(lib, "drains").value = 0

# A server that nobody refers to any more ends, and so does its endpoint.
server = gsched.Server("fifo")
address = server.listen_grpc("127.0.0.1:0", [server.add_model(lambda x: x + 1, torch.randn(), name="plus")]).address
assert floats(Stub(address).ModelInfer(request())) == [2, 3, 4, 5]
del server
gc.collect()
refused("UNAVAILABLE", "", Stub(address).ModelInfer, request())
PY

# gsched.serve: until SIGTERM, on a channel's socket too.
cat >serve.py <<'PY'
import gsched, torch
def ready(server):
    print(*[e.address for e in server._state.endpoints], *[c.socket for c in server._state.channels], flush=True)
gsched.serve({"plus": (lambda x: x + 1, torch.randn())}, "played.sock", grpc="127.0.0.1:0", policy="fifo", ready=ready)
print("ended", flush=True)
PY
"$python" serve.py >said &
server=$!
for _ in $(seq 600); do [ ! -s said ] || break; sleep 0.05; done
"$python" -c "
from client import Stub, floats, request
assert floats(Stub('$(cut -d' ' -f1 said)').ModelInfer(request())) == [2, 3, 4, 5]"
grep -q ' played.sock$' said
kill -TERM $server
wait $server
grep -qx ended said

says() { # says TEXT: of the program on stdin, which fails by one line
  if timeout 100 "$python" - >/dev/null 2>err; then echo "no error: $1"; exit 1; fi
  grep -qF -- "$1" <(tail -n 1 err) || { cat err; exit 1; }
}
says 'socket: none, as is grpc, expected one of them' <<<'import gsched; gsched.serve({"a": (None, None)})'
says 'grpc: not installed, expected grpcio and protobuf' <<<'
import sys, gsched
sys.modules["grpc"] = None
gsched.Server("fifo").listen_grpc("127.0.0.1:0")'
echo 'gRPC clients were served'
