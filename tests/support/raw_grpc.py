"""Bytes of HTTP/2 that no gRPC library sends."""

from __future__ import annotations

import socket
from contextlib import suppress

from support.patience import PATIENCE_S

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What begins a connection of HTTP/2, with empty settings."""

_FIELDS = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/test.Service/\xff"),
    (b":authority", b"agent"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)
_HEADERS = b"".join(b"\x00%c%b%c%b" % (len(name), name, len(value), value) for name, value in _FIELDS)

PATH_NOT_UTF8 = PREFACE + b"%b\x01\x04\x00\x00\x00\x01%b" % (len(_HEADERS).to_bytes(3, "big"), _HEADERS)
"""A call whose path is not UTF-8: grpcio's server in asyncio does not survive it."""


def deliver(address: str, data: bytes) -> None:
    """Send the bytes to HOST:PORT, and read a part of the answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection, suppress(ConnectionError):
        connection.sendall(data)
        connection.recv(65536)
