"""Bytes that ports of the proxy take for good, and what becomes of them: at most 64 KiB a connection. Pure."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from random import Random

from a2a_tool_capture import URI
from h2.connection import H2Connection
from support.raw_http2 import framed, unchecked_connection

MOST = 65_536
"""Bytes of one connection."""

HTTP_PORTS = ("data", "otlp", "push", "admin")
HTTP2_PORTS = ("grpc", "otlp-grpc")
PORTS = (*HTTP_PORTS, *HTTP2_PORTS)

_A2A = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "taskId": "t", "extensions": [URI]}
_SPANS = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "5b" * 16, "spanId": "ee" * 8, "name": "x"}]}]}]}
_TARGETS = {
    "data": (b"/", b"/message:send", b"/tasks/t:subscribe", b"/.well-known/agent-card.json", b"/%00%ff?a=b", b"/f"),
    "otlp": (b"/v1/traces", b"/v1/traces?x", b"/v1/logs"),
    "push": (b"/push/unknown", b"/push/", b"/"),
    "admin": (
        b"/",
        b"/api/turns?limit=2&cursor=x",
        b"/api/runs",
        b"/metrics",
        b"/readyz",
        b"/api/events",
        b"/api/cases/c",
    ),
}
_PATHS = {
    "grpc": (b"/lf.a2a.v1.A2AService/SendStreamingMessage", b"/a2a.v1.A2AService/GetTask", b"/x/\xff", b"/"),
    "otlp-grpc": (b"/opentelemetry.proto.collector.trace.v1.TraceService/Export", b"/x/y"),
}
_METHODS = (
    b"GET",
    b"POST",
    b"POST",
    b"POST",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PRI",
    b"M-SEARCH",
)
_BODIES = (
    b"",
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": _A2A}}).encode(),
    json.dumps({"message": _A2A}).encode(),
    json.dumps(_SPANS).encode(),
    b"[" * 5_000,
    b'{"a":' * 2_000,
    b"\x0a\x06\x0a\x00\x12\x02\x0a\x00",
    b"1" * 30_000,
)
_FIELDS = (
    b"Content-Type: application/json",
    b"Content-Type: application/x-protobuf",
    b"Content-Type: \xff;=",
    b"Content-Encoding: gzip",
    b"Content-Encoding: gzip, deflate, br",
    b"Accept-Encoding: *;q=0",
    b"A2A-Extensions: " + URI.encode(),
    b"A2A-Version: \xff",
    b"Expect: 100-continue",
    b"Upgrade: h2c",
    b"Connection: upgrade, close, keep-alive, host",
    b"Transfer-Encoding: chunked",
    b"Content-Length: 5",
    b"Host: evil.example",
    b"traceparent: 00-x",
    b'Forwarded: host="a";proto=;;=',
    b"Cookie: a=\xff; =; ;",
    b"Range: bytes=9-1",
    b"Last-Event-ID: \xff",
    b"Authorization: Basic \xff",
    b"Origin: null",
    b"If-None-Match: \xff",
    b"A2A-Eval-Case: " + b"c" * 3_000,
    b"x: " + b"v" * 20_000,
)
_NUMBERS = (b"0", b"-1", b"65536", b"4294967295", b"4294967296", b"18446744073709551616", b"1e9", b"0x10", b"NaN")
_ODD = (
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"\xff",
    b" ",
    b"\t",
    b":",
    b";",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
_CONNECTIONS = 100
"""To choose from: HPACK takes long."""
_SETTINGS = (0, 1, 2, 3, 4, 5, 6, 8, 0xFFFF)


def stream(dice: Random, port: str) -> bytes:
    """What one connection sends."""
    kinds: list[Callable[[Random, str], bytes]] = [_noise]
    kinds += [_http2] * 8 if port in HTTP2_PORTS else [*[_http1] * 8, _http2_by_prior_knowledge]
    if port in HTTP2_PORTS:
        kinds.append(lambda dice, port: _http1(dice, "data"))
    data = dice.choice(kinds)(dice, port)
    for _ in range(dice.choice((0, 1, 1, 2, 5))):
        data = _mutated(dice, data)
    return data[:MOST]


def _noise(dice: Random, port: str) -> bytes:
    begin = dice.choice(
        (b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    )
    return begin + dice.randbytes(dice.choice((1, 30, 1_000, MOST)))


def _http1(dice: Random, port: str) -> bytes:
    return b"".join(_request(dice, port) for _ in range(dice.choice((1, 1, 2, 6))))


def _request(dice: Random, port: str) -> bytes:
    body = dice.choice(_BODIES)
    fields = [b"Host: 127.0.0.1", *dice.sample(_FIELDS, dice.choice((0, 1, 3, 6)))]
    if b"Content-Encoding: gzip" in fields and dice.random() < 0.7:
        body = gzip.compress(body * dice.choice((1, 1, 200)), mtime=0)
    if b"Transfer-Encoding: chunked" in fields:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    elif b"Content-Length: 5" not in fields and dice.random() < 0.9:
        fields.append(b"Content-Length: %d" % len(body))
    dice.shuffle(fields)
    line = b"%b %b HTTP/%b" % (
        dice.choice(_METHODS),
        dice.choice(_TARGETS[port]),
        dice.choice((b"1.1", b"1.1", b"1.0", b"2.0")),
    )
    return b"\r\n".join([line, *fields, b"", body])


def _http2_by_prior_knowledge(dice: Random, port: str) -> bytes:
    return _http2(dice, "grpc")


def _http2(dice: Random, port: str) -> bytes:
    """Frames of calls, some of them changed, repeated, left out or in another order."""
    frames = [*_calls(port, dice.randrange(_CONNECTIONS)), *(_odd_frame(dice) for _ in range(dice.choice((0, 1, 4))))]
    if dice.random() < 0.4:
        start, *others = frames
        dice.shuffle(others)
        frames = [start, *others]
    frames = [_changed_frame(dice, frame) if dice.random() < 0.1 else frame for frame in frames]
    return b"".join(frames)


@cache
def _calls(port: str, number: int) -> list[bytes]:
    """The frames of a connection with one or more calls."""
    dice, connection = Random(f"{port} {number}"), unchecked_connection(client_side=True)
    connection.outbound_flow_control_window = 1 << 30
    calls = range(dice.choice((1, 1, 3, 20)))
    return [frame for _ in calls for frame in _frames(connection, dice, dice.choice(_PATHS[port]))]


def _frames(connection: H2Connection, dice: Random, path: bytes) -> list[bytes]:
    head = [(b":method", dice.choice((b"POST", b"GET", b"\xff"))), (b":scheme", b"http"), (b":path", path)]
    fields = [(b":authority", b"agent"), (b"te", b"trailers"), (b"content-type", b"application/grpc")]
    odd = [
        (b"grpc-timeout", b"1n"),
        (b"grpc-encoding", b"gzip"),
        (b"x-raw-bin", b"\xff\xff"),
        (b"x-\xff", b"1"),
        (b"Upper", b"1"),
        (b":path", b"/twice"),
        (b"connection", b"close"),
        (b"x-break", b"a\r\nb"),
        (b"a2a-extensions", b"\xff"),
        (b"content-length", b"3"),
        (b"x-long", b"l" * dice.choice((20_000, 60_000))),
    ]
    stream_id = connection.get_next_available_stream_id()
    connection.send_headers(stream_id, [*head, *fields, *dice.sample(odd, dice.choice((0, 0, 1, 3)))])
    found = [connection.data_to_send()]
    message = framed(dice.choice(_BODIES)[:15_000], dice.choice((0, 0, 1, 7)))
    for piece in (message, message[: dice.randrange(6)]):
        if piece:
            connection.send_data(stream_id, piece, pad_length=dice.choice((None, None, 0, 200)))
            found.append(connection.data_to_send())
    if dice.random() < 0.8:
        connection.end_stream(stream_id)
    else:
        connection.reset_stream(stream_id, dice.choice((0, 8, 0xFFFFFFFF)))
    return [*found, connection.data_to_send()]


def _odd_frame(dice: Random) -> bytes:
    kind = dice.choice((*range(11), 0x10, 0xFE))
    number = dice.choice((0, 1, 1, 2, 3, 0x7FFFFFFF, 0xFFFFFFFF)).to_bytes(4, "big")
    if kind == 4:
        pairs = [
            (dice.choice(_SETTINGS), dice.choice((0, 1, 100, 16_384, 0x7FFFFFFF, 0xFFFFFFFF)))
            for _ in range(dice.randrange(4))
        ]
        payload = b"".join(name.to_bytes(2, "big") + value.to_bytes(4, "big") for name, value in pairs)
    else:
        payload = dice.randbytes(dice.choice((0, 4, 5, 8, 9, 100, 16_384, 16_385)))
    return len(payload).to_bytes(3, "big") + bytes((kind, dice.choice((0, 1, 4, 5, 8, 0x20, 0xFF)))) + number + payload


def _changed_frame(dice: Random, frame: bytes) -> bytes:
    at = dice.randrange(min(len(frame), 12)) if frame else 0
    return frame[:at] + dice.randbytes(1) + frame[at + 1 :]


def _mutated(dice: Random, data: bytes) -> bytes:
    if not data:
        return data
    at, end = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    match dice.randrange(8):
        case 0:  # a bit
            return data[:at] + bytes((data[at] ^ 1 << dice.randrange(8),)) + data[at + 1 :]
        case 1:  # something between
            return data[:at] + dice.choice((*_ODD, *_NUMBERS, dice.randbytes(5))) + data[at:]
        case 2:  # left out
            return data[:at] + data[end:]
        case 3:  # twice
            return data[:end] + data[at:]
        case 4:  # too often
            return (data[:end] + data[at:end] * (MOST // max(end - at, 1)))[:MOST]
        case 5:  # cut off
            return data[:at]
        case 6:  # in another order
            return data[end:] + data[:at] + data[at:end]
        case _:  # other bytes
            return data[:at] + dice.randbytes(min(end - at, 300)) + data[at + min(end - at, 300) :]
