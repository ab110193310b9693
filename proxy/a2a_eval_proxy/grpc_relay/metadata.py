"""gRPC metadata as HTTP header fields, so that the rules of `protocol.headers` apply to both. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

_OURS_ALONE = frozenset({b"user-agent", b"grpc-accept-encoding", b"accept-encoding", b"grpc-encoding"})
"""Each gRPC library sends its own."""


def to_headers(metadata: Iterable[tuple[str, str | bytes]] | None) -> list[tuple[bytes, bytes]]:
    """Metadata as header fields, without what each gRPC library sends itself."""
    return [
        (key.encode(), value.encode() if isinstance(value, str) else value)
        for key, value in metadata or ()
        if key.encode() not in _OURS_ALONE
    ]


def from_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str | bytes]]:
    """Header fields as metadata."""
    return [
        (name.decode(), value if name.endswith(b"-bin") else value.decode("ascii", "replace"))
        for name, value in headers
    ]


def client_of(peer: str) -> tuple[str, int]:
    """Address and port in gRPC's name of a peer, as `ipv4:127.0.0.1:53012` or `ipv6:%5B::1%5D:53012`."""
    host, _, port = unquote(peer.partition(":")[2]).rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
