# SPDX-License-Identifier: Apache-2.0
"""A load report as a gRPC client gets it: HTTP/2 by hand, as libraries keep the report from programs, and
xds.data.orca.v3.OrcaLoadReport by its published definition."""

import socket
import struct

DOUBLES = {1: "cpu_utilization", 2: "mem_utilization", 6: "rps_fractional", 7: "eps", 9: "application_utilization"}
MAPS = {4: "request_cost", 5: "utilization", 8: "named_metrics"}  # of text and double


def fields(data):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
        elif kind == 1:
            yield number, struct.unpack("<d", data[at:at + 8])[0]
            at += 8
        elif kind == 2:
            size = varint()
            assert at + size <= len(data)
            yield number, data[at:at + size]
            at += size
        else:
            raise ValueError(f"wire type {kind}")


def decode(data):
    """The fields of a report, by name."""
    out = {}
    for number, value in fields(data):
        if number in DOUBLES:
            assert isinstance(value, float)
            out[DOUBLES[number]] = value
        else:
            entry = dict(fields(value))
            out[f"{MAPS[number]}.{entry[1].decode()}"] = entry.get(2, 0.0)
    return out


def trailers(path, message):
    """The last headers of an answer to ModelInfer, as HPACK has them; binary values are as they are."""

    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    def text(s):
        return bytes([len(s)]) + s

    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(path)
        headers = (b"\x83\x86\x04" + text(b"/inference.GRPCInferenceService/ModelInfer") + b"\x01" + text(b"x") +
                   b"\x0f\x10" + text(b"application/grpc") + b"\x00" + text(b"te") + text(b"trailers"))
        settings = struct.pack(">HIHI", 0xFE03, 1, 4, 1 << 30)  # binary values as they are, and large answers
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, settings) + frame(8, 0, 0, struct.pack(">I", 1 << 30)) +
                  frame(1, 4, 1, headers) + frame(0, 1, 1, b"\0" + struct.pack(">I", len(message)) + message))
        got = b""
        while True:
            while len(got) < 9 or len(got) < 9 + int.from_bytes(got[:3], "big"):
                part = s.recv(65536)
                assert part, "the connection has ended"
                got += part
            size, kind, flags = int.from_bytes(got[:3], "big"), got[3], got[4]
            payload, got = got[9:9 + size], got[9 + size:]
            if kind == 4 and not flags & 1:
                s.sendall(frame(4, 1, 0, b""))
            if kind == 1 and flags & 1:
                return payload


def report(path, message):
    """Of an answer to this message; empty if there is none."""
    name = b"endpoint-load-metrics-bin"
    all = trailers(path, message)
    at = all.find(bytes([len(name)]) + name)
    if at < 0:
        return {}
    at += 1 + len(name)
    size = all[at]
    if size == 0x7F:  # RFC 7541, section 5.1, for less than 255 bytes
        size += all[at + 1] & 0x7F | (all[at + 2] << 7 if all[at + 1] & 0x80 else 0)
        at += 2 if all[at + 1] & 0x80 else 1
    value = all[at + 1:at + 1 + size]
    assert value[0] == 0  # not base64
    return decode(value[1:])
