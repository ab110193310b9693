"""Decodes an OTLP body: content encoding, content type, limits. Pure."""

from __future__ import annotations

import zlib
from typing import Any

from google.protobuf.message import DecodeError

from ..protocol.content_coding import WINDOWS, wbits
from .errors import MalformedError, PayloadTooLargeError, UnsupportedError
from .json_decoding import decode_json
from .size_limits import check_json, check_protobuf

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

ACCEPTED_CODINGS = "gzip, deflate"


def media_type(content_type: str) -> str:
    """`Application/JSON; charset=utf-8` as `application/json`; "" for ""."""
    return content_type.partition(";")[0].strip().lower()


def decode_request(
    body: bytes, request_type: type[Any], *, content_type: str, content_encoding: str, max_bytes: int
) -> tuple[Any, int]:
    """Returns the message of `request_type` and the decompressed size of its body in bytes.

    `content_type` and `content_encoding` are the values of those headers, "" without one. Decompresses at most
    `max_bytes`, and decodes nothing that would take more than ten times as many in memory. Raises only BodyError.
    """
    kind = media_type(content_type)
    if kind not in (PROTOBUF, JSON):
        raise UnsupportedError(f"unsupported content type {content_type!r}; send {PROTOBUF} or {JSON}")
    content = decompress(body, content_encoding, max_bytes)
    if kind == JSON:
        check_json(content, max_bytes)
        return decode_json(content, request_type), len(content)
    check_protobuf(content, request_type.DESCRIPTOR, max_bytes)
    try:
        return request_type.FromString(content), len(content)
    except DecodeError:
        raise MalformedError(f"the body is not a protobuf message {request_type.DESCRIPTOR.name}") from None


def decompress(body: bytes, content_encoding: str, max_bytes: int) -> bytes:
    """Returns the decompressed body, at most `max_bytes`. Raises BodyError."""
    coding = content_encoding.strip().lower()
    if coding in ("", "identity"):
        if len(body) > max_bytes:
            raise PayloadTooLargeError(f"the body exceeds {max_bytes} bytes")
        return body
    if coding not in WINDOWS:
        raise UnsupportedError(f"unsupported content encoding {content_encoding!r}; use {ACCEPTED_CODINGS} or none")
    inflater = zlib.decompressobj(wbits(coding, body))
    try:
        content = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise MalformedError(f"the body is not {coding}: {error}") from None
    if len(content) > max_bytes:
        raise PayloadTooLargeError(f"the body exceeds {max_bytes} bytes when decompressed")
    if not inflater.eof:
        raise MalformedError(f"the {coding} body is truncated")
    if inflater.unused_data:
        raise MalformedError(f"{len(inflater.unused_data)} bytes follow the {coding} stream")
    return content
