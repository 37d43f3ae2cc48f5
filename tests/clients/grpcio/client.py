# SPDX-License-Identifier: Apache-2.0
"""client.py ADDRESS: talks to a gsched_server by grpcio, with messages that protoc has made from the published
description of the protocol. The server has the models and tenants of tests/cli/network_clients.py."""

import sys
import time

import grpc
import open_inference_pb2 as pb
from google.protobuf import any_pb2, duration_pb2

ADDRESS = sys.argv[1]
code = grpc.StatusCode
channel = grpc.insecure_channel(ADDRESS)
service = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
checks = failures = 0


def expect(what, good, shown=""):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print(f"FAILED: {what}: {str(shown)[:500]}")


def method(name):
    of = service.methods_by_name[name]
    make = channel.stream_stream if of.server_streaming else channel.unary_unary
    return make(f"/{service.full_name}/{name}", request_serializer=lambda m: m.SerializeToString(),
                response_deserializer=getattr(pb, of.output_type.name).FromString)


infer = method("ModelInfer")


def raw(id="7", model="lenet_b1"):
    r = pb.ModelInferRequest(model_name=model, id=id, raw_input_contents=[bytes(3136)])
    r.inputs.add(name="input", datatype="FP32", shape=[1, 784])
    return r


def big(**parameters):
    r = pb.ModelInferRequest(model_name="big")
    for name, value in parameters.items():
        r.parameters[name].double_param = value
    return r


def error_of(call):
    try:
        call.result(20)
        return None
    except grpc.RpcError as e:
        return e
    except grpc.FutureCancelledError:
        return call


expect("live", method("ServerLive")(pb.ServerLiveRequest(), timeout=20).live)
expect("ready", method("ServerReady")(pb.ServerReadyRequest(), timeout=20).ready)
model = method("ModelMetadata")(pb.ModelMetadataRequest(name="typed"), timeout=20)
expect("metadata", model.platform == "gsched_simulated_profile" and model.inputs[0].datatype == "INT8" and list(model.inputs[0].shape) == [2, 2], model)

a, call = infer.with_call(raw(), timeout=20)
expect("raw tensors", a.id == "7" and list(a.outputs[0].shape) == [1, 10] and list(a.raw_output_contents) == [bytes(40)] and
       a.parameters["latency_us"].int64_param > 20 and call.code() == code.OK, a)
r = pb.ModelInferRequest(model_name="typed")
r.inputs.add(name="b", datatype="BOOL", shape=[3]).contents.bool_contents.extend([True, False, True])
r.inputs.add(name="a", datatype="INT8", shape=[2, 2]).contents.int_contents.extend([1, -128, 127, 0])
a = infer(r, timeout=20)
expect("typed tensors", [o.name for o in a.outputs] == ["x", "y"] and list(a.raw_output_contents) == [bytes(16), bytes(1)], a)
for status, request in ((code.NOT_FOUND, raw(model="nosuch")), (code.INVALID_ARGUMENT, pb.ModelInferRequest(model_name="lenet_b1")),
                        (code.DEADLINE_EXCEEDED, big(deadline_ms=0.5))):
    e = error_of(infer.future(request, timeout=20))
    expect(f"{status}", e is not None and e.code() == status and e.details() and "\n" not in e.details(), e)

ids = [str(i) for i in range(100)]
ends = list(method("ModelStreamInfer")((raw(id, "nosuch" if int(id) % 10 == 9 else "lenet_b1") for id in ids), timeout=20))
expect("a stream", sorted(e.infer_response.id for e in ends) == sorted(ids) and sum(bool(e.error_message) for e in ends) == 10, len(ends))

errors = [error_of(c) for c in [infer.future(big(), timeout=0.06) for _ in range(12)]]
expect("deadlines", any(errors) and all(e is None or e.code() == code.DEADLINE_EXCEEDED for e in errors), errors)
calls = [infer.future(big(), timeout=20) for _ in range(12)]
time.sleep(0.02)
for c in calls:
    c.cancel()
errors = [error_of(c) for c in calls]
expect("cancellation", any(errors) and all(e is None or e.code() == code.CANCELLED for e in errors), errors)

over = None
for _ in range(10):  # they may come one after another
    errors = [error_of(c) for c in [infer.future(big(), timeout=20, metadata=[("gsched-tenant", "small")]) for _ in range(6)]]
    over = over or next((e for e in errors if e is not None and e.code() == code.RESOURCE_EXHAUSTED), None)
    if over:
        break
expect("RESOURCE_EXHAUSTED", over is not None and "'small'" in over.details(), over)
details = dict(over.trailing_metadata()).get("grpc-status-details-bin", b"") if over else b""
# google.rpc.Status has its details in field 3, each an Any; RetryInfo has a Duration in field 1.
at = details.find(b"\n(type.googleapis.com/google.rpc.RetryInfo")
info = any_pb2.Any.FromString(details[at:]) if at >= 0 else any_pb2.Any()
delay = duration_pb2.Duration.FromString(info.value[2:])
expect("RetryInfo", info.type_url.endswith("RetryInfo") and delay.seconds + delay.nanos * 1e-9 > 0, details)
channel.close()
print(f"{checks} checks, {failures} failures")
sys.exit(failures > 0)
