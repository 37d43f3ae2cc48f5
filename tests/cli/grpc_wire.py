# SPDX-License-Identifier: Apache-2.0
"""gRPC over HTTP/2 by Python's standard library alone: unary calls, and frames that break the rules.

One call at a time of a connection. Header names and values that the peer has compressed by Huffman's code are read
as None; gRPC and HAProxy do not use it.
"""

import socket
import struct
import urllib.parse

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK, PADDED, PRIORITY = 1, 4, 1, 8, 32
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CODES = ("OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
         "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
         "UNAUTHENTICATED").split()

STATIC = """:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204
:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate|accept-language
accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|content-disposition
content-encoding|content-language|content-length|content-location|content-range|content-type|cookie|date|etag|expect
expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|link|location
max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|server|set-cookie
strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"""
STATIC = [tuple((entry + " ").split(" ", 1)) for entry in STATIC.replace("\n", "|").split("|")]
STATIC = [(name, value.rstrip()) for name, value in STATIC]


class Broken(Exception):
    """The peer has ended the connection, or does not speak HTTP/2."""


def pack_headers(headers):
    """As literals that are not indexed."""
    out = b""
    for name, value in headers:
        out += b"\0"
        for text in (name.encode(), value if isinstance(value, bytes) else value.encode()):
            assert len(text) < 16000
            n = len(text)
            out += bytes([n]) if n < 127 else bytes([127]) + varint(n - 127)
            out += text
    return out


def unpack_headers(block):
    """By the static table: the connection allows no other."""
    at, out = 0, []

    def number(bits):
        nonlocal at
        most = (1 << bits) - 1
        n = block[at] & most
        at += 1
        if n < most:
            return n
        shift = 0
        while True:
            byte = block[at]
            at += 1
            n += (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    def text():
        nonlocal at
        huffman = block[at] & 128
        n = number(7)
        raw = block[at:at + n]
        at += n
        return None if huffman else raw.decode("latin-1")

    while at < len(block):
        first = block[at]
        if first & 128:
            out.append(STATIC[number(7) - 1])
        elif first & 0xe0 == 0x20:
            number(5)
        else:
            index = number(6 if first & 64 else 4)
            out.append((STATIC[index - 1][0] if index else text(), text()))
    return out


class Result:
    """The end of a call. `code` is a name of gRPC's, or None without a status."""

    def __init__(self):
        self.headers, self.messages, self.reset, self.raw = {}, [], None, b""

    @property
    def code(self):
        status = self.headers.get("grpc-status")
        return CODES[int(status)] if status is not None else None

    @property
    def line(self):
        return urllib.parse.unquote(self.headers.get("grpc-message") or "")

    def binary(self, name):
        """The value of a -bin header; empty if there is none."""
        value = (self.headers.get(name) or "").encode("latin-1")
        assert value[:1] in (b"", b"\0"), "base64, where the peer was asked for the bytes"
        return value[1:]

    def __repr__(self):
        return f"Result({self.code}, {self.line!r}, {self.messages!r:.80}, reset={self.reset}, {self.headers})"


class Connection:
    """To a path of a Unix socket, or to (host, port)."""

    def __init__(self, to, timeout=20):
        self.sock = socket.socket(socket.AF_UNIX if isinstance(to, str) else socket.AF_INET)
        self.sock.settimeout(timeout)
        self.sock.connect(to)
        self.next, self.buffer, self.goaway = 1, b"", None
        self.window, self.stream_window, self.most_frame = 65535, 65535, 16384
        self.left = {}  # of the window, by stream
        self.sock.sendall(PREFACE)
        # No table of headers, no pushes, a wide window, and values of -bin headers as they are.
        self.frame(SETTINGS, 0, 0, struct.pack(">HIHIHIHI", 1, 0, 2, 0, 4, 1 << 30, 0xfe03, 1))
        self.frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def frame(self, kind, flags, stream, payload=b""):
        self.sock.sendall(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def read_frame(self):
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            more = self.sock.recv(65536)
            if not more:
                raise Broken(f"the connection has ended ({self.goaway or 'no GOAWAY'})")
            self.buffer += more
        size = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = self.buffer[3], self.buffer[4], int.from_bytes(self.buffer[5:9], "big") & 0x7fffffff
        payload, self.buffer = self.buffer[9:9 + size], self.buffer[9 + size:]
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, size, 6):
                key, value = struct.unpack(">HI", payload[i:i + 6])
                if key == 4:
                    for each in self.left:
                        self.left[each] += value - self.stream_window
                    self.stream_window = value
                elif key == 5:
                    self.most_frame = min(value, 1 << 20)
            self.frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self.frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            n = int.from_bytes(payload, "big")
            if stream == 0:
                self.window += n
            elif stream in self.left:
                self.left[stream] += n
        elif kind == GOAWAY:
            self.goaway = f"GOAWAY {int.from_bytes(payload[4:8], 'big')}: {payload[8:].decode('latin-1')}"
        return kind, flags, stream, payload

    def open(self, path, metadata=(), end=False):
        stream, self.next = self.next, self.next + 2
        self.left[stream] = self.stream_window
        self.frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, pack_headers(
            [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
             ("content-type", "application/grpc"), ("te", "trailers"), *metadata]))
        return stream

    def send(self, stream, data, end=True):
        """As far as the peer's windows allow it; False if the stream has ended before."""
        while True:
            n = min(len(data), self.window, self.left[stream], self.most_frame)
            if n > 0 or not data:
                piece, data = data[:n], data[n:]
                self.window -= n
                self.left[stream] -= n
                self.frame(DATA, END_STREAM if end and not data else 0, stream, piece)
                if not data:
                    return True
            elif self.pending(stream):
                return False

    def pending(self, stream):
        """Reads a frame; whether it is the stream's, which is then read again by finish()."""
        kind, flags, of, payload = self.read_frame()
        if of != stream or kind == WINDOW_UPDATE:
            return False
        self.buffer = (struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", of) + payload) + self.buffer
        return True

    def finish(self, stream):
        """Reads to the end of the stream."""
        result, body, block = Result(), b"", b""
        while True:
            kind, flags, of, payload = self.read_frame()
            if of != stream:
                if kind == GOAWAY and int.from_bytes(payload[:4], "big") & 0x7fffffff < stream:
                    raise Broken(self.goaway)
                continue
            result.raw += payload
            if flags & PADDED and kind in (DATA, HEADERS):
                payload = payload[1:len(payload) - payload[0]]
            if kind == DATA:
                body += payload
                if payload:  # the window is given back at once
                    for each in (0, stream):
                        self.frame(WINDOW_UPDATE, 0, each, struct.pack(">I", len(payload)))
            elif kind in (HEADERS, CONTINUATION):
                if kind == HEADERS and flags & PRIORITY:
                    payload = payload[5:]
                block += payload
                if flags & END_HEADERS:
                    result.headers.update(unpack_headers(block))
                    block = b""
            elif kind == RST_STREAM:
                result.reset = int.from_bytes(payload, "big")
            if kind == RST_STREAM or (flags & END_STREAM and kind in (DATA, HEADERS)):
                break
        while len(body) >= 5:
            n = int.from_bytes(body[1:5], "big")
            result.messages.append(body[5:5 + n])
            body = body[5 + n:]
        del self.left[stream]
        return result

    def call(self, path, message, metadata=()):
        stream = self.open(path, metadata)
        self.send(stream, b"\0" + struct.pack(">I", len(message)) + message)
        return self.finish(stream)

    def infer(self, model, inputs=(), metadata=(), **more):
        return self.call("/inference.GRPCInferenceService/ModelInfer", infer_request(model, inputs, **more), metadata)


# Messages of protocol buffers ---------------------------------------------------------------------

def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n >= 128:
        out += bytes([128 | n & 127])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def infer_request(model, inputs=(), id="", parameters={}):
    """Inputs: (name, datatype, shape, bytes)."""
    out = field(1, model) + (field(3, id) if id else b"")
    for name, value in parameters.items():
        out += field(4, field(1, name) + field(2, field(3, value)))
    for name, datatype, shape, _ in inputs:
        out += field(5, field(1, name) + field(2, datatype) + field(3, b"".join(map(varint, shape))))
    for *_, raw in inputs:
        out += field(7, raw)
    return out


def fields(message):
    """Values by field number, in lists; messages within are bytes."""
    at, out = 0, {}

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte = message[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while at < len(message):
        key = number()
        if key & 7 == 0:
            value = number()
        elif key & 7 == 2:
            n = number()
            value = message[at:at + n]
            at += n
        else:
            n = {1: 8, 5: 4}[key & 7]
            value = message[at:at + n]
            at += n
        out.setdefault(key >> 3, []).append(value)
    return out
