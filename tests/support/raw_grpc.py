"""Bytes of HTTP/2 that no gRPC library sends."""

from __future__ import annotations

import socket
from contextlib import suppress

from support.patience import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What begins a connection of HTTP/2, with empty settings."""


def raw_call(path: bytes, *fields: tuple[bytes, bytes]) -> bytes:
    """A connection with one call, whose message is empty, with these further header fields."""
    fields = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"agent"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *fields,
    )
    headers = b"".join(b"\x00%c%b%c%b" % (len(name), name, len(value), value) for name, value in fields)
    return PREFACE + _frame(1, 4, headers) + _frame(0, 1, b"\x00" * 5)


def _frame(kind: int, flags: int, payload: bytes) -> bytes:
    return b"%b%c%c\x00\x00\x00\x01%b" % (len(payload).to_bytes(3, "big"), kind, flags, payload)


PATH_NOT_UTF8 = raw_call(b"/test.Service/\xff")
"""A call that ends grpcio's server in asyncio."""


def deliver(address: str, data: bytes, until: bytes = b"") -> bytes:
    """Send the bytes to HOST:PORT, and return the answer up to where `until` has arrived, or its end."""
    host, _, port = address.rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection, suppress(ConnectionError):
        connection.sendall(data)
        while part := connection.recv(65536):
            answer += part
            if until in answer:
                break
    return answer
