# SPDX-License-Identifier: Apache-2.0
"""A load report as a gRPC client gets it, by the published definition of xds.data.orca.v3.OrcaLoadReport."""

import struct

from grpc_wire import Connection, fields

DOUBLES = {1: "cpu_utilization", 2: "mem_utilization", 6: "rps_fractional", 7: "eps", 9: "application_utilization"}
MAPS = {4: "request_cost", 5: "utilization", 8: "named_metrics"}  # of text and double


def double(raw):
    return struct.unpack("<d", raw)[0]


def decode(data):
    """The fields of a report, by name."""
    out = {}
    for number, values in fields(data).items():
        for value in values:
            if number in DOUBLES:
                out[DOUBLES[number]] = double(value)
            else:
                entry = fields(value)
                out[f"{MAPS[number]}.{entry[1][0].decode()}"] = double(entry[2][0]) if 2 in entry else 0.0
    return out


def report(path, message):
    """Of an answer to this message; empty if there is none."""
    with Connection(path) as c:
        return decode(c.call("/inference.GRPCInferenceService/ModelInfer", message).binary("endpoint-load-metrics-bin"))
