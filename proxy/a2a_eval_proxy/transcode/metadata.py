"""HTTP header fields as gRPC metadata, and metadata as header fields. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable

_OF_THE_MESSAGE = re.compile(
    rb"(?:accept|accept-(?:charset|encoding)|connection|content-.*|date|digest|expect|grpc-.*|host|if-.*|keep-alive"
    rb"|proxy-connection|range|server|te|trailer|transfer-encoding|upgrade|user-agent)"
)
"""Fields about one HTTP message or connection, and what gRPC sends itself."""

FAILURE = b"a2a-eval-proxy-failure"
"""The field of a response that stands for an agent that did not respond: only the transcoder itself sets it."""

_VERSIONS = frozenset({b"a2a-version"})  # the proxy states the version in which it calls the agent
_KEY = re.compile(rb"[0-9a-z_.-]+")
_VALUE = re.compile(rb"[ -~]*")
"""What metadata may hold (gRPC over HTTP/2: Custom-Metadata), unless the key ends with `-bin`."""

_BINARY = b"-bin"

_OURS_ALONE = frozenset({"user-agent", "grpc-accept-encoding", "accept-encoding", "grpc-encoding"})
"""Each gRPC library sends its own."""


def to_metadata(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str | bytes]]:
    """The end-to-end fields of a request, names in lower case, order and repetitions kept.

    Left out are fields that gRPC cannot carry: with a value that is not ASCII, or ends with `-bin` and is not base64.
    """
    kept = []
    for name, value in headers:
        if _OF_THE_MESSAGE.fullmatch(name) or name in _VERSIONS or not _KEY.fullmatch(name):
            continue
        if name.endswith(_BINARY):
            try:
                kept.append((name, base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)))
            except binascii.Error:
                continue
        elif _VALUE.fullmatch(value):
            kept.append((name, value))
    return from_headers(kept)


def from_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str | bytes]]:
    """Header fields as metadata."""
    return [
        (name.decode(), value if name.endswith(_BINARY) else value.decode("ascii", "replace"))
        for name, value in headers
    ]


def to_headers(metadata: Iterable[tuple[str, str | bytes]] | None) -> list[tuple[bytes, bytes]]:
    """The fields of a response for the agent's metadata; binary values in base64."""
    fields = [
        (key.encode(), base64.b64encode(value) if isinstance(value, bytes) else value.encode())
        for key, value in metadata or ()
        if key not in _OURS_ALONE
    ]
    return [(name, value) for name, value in fields if name != FAILURE and not _OF_THE_MESSAGE.fullmatch(name)]
