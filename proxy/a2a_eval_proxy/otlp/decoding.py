"""Decodes an OTLP body, protobuf or JSON, within limits on its bytes and values. Pure.

OTLP/JSON is ProtoJSON, which protobuf reads, with differences (OTLP specification, "JSON Protobuf Encoding"): trace and
span ids are hex, and unknown keys are ignored. A few bytes can become much memory: 16 KiB of gzip a gigabyte, two bytes
of protobuf an empty span of 184. So decompressed bytes and the number of values are bounded before it is decoded.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson
from a2a_tool_capture.json_limits import WALKED, has_too_many_values, too_deep
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError

from ..net.grpc_wire import GrpcStatus
from ..protocol import content_coding
from ..protocol.content_coding import DecodedTooLargeError, Decoding, NoRoomError, codings

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

ACCEPTED_CODINGS = "gzip, deflate"

MAX_FIELDS = 500_000
"""Of all messages in a body together; as JSON, values. An empty span takes 184 bytes."""

_MAX_DEPTH = 100
"""Of messages in messages: the default limit of protobuf implementations."""

TOO_MUCH = "too much telemetry arrives at once"

_HEX_IDS = frozenset({"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"})
_MOST_OF_AN_ERROR = 300
_FIELD = re.compile(r"Failed to parse (\w+) field: ")


_CODES = {
    400: GrpcStatus.INVALID_ARGUMENT,  # not OTLP, truncated, or not of its content type
    404: GrpcStatus.UNIMPLEMENTED,  # no telemetry is taken there
    405: GrpcStatus.UNIMPLEMENTED,
    408: GrpcStatus.DEADLINE_EXCEEDED,
    413: GrpcStatus.RESOURCE_EXHAUSTED,  # beyond a limit: as sent, decompressed, or decoded
    415: GrpcStatus.UNIMPLEMENTED,  # a content type or content encoding
    500: GrpcStatus.INTERNAL,
    503: GrpcStatus.UNAVAILABLE,  # too many requests wait to be processed; the only one that senders retry
}


class BodyError(Exception):
    """A refused request; the message describes the problem and what is accepted. `status` is that of the response over
    HTTP, `code` over gRPC."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = _CODES[status]


def media_type(content_type: str) -> str:
    """`Application/JSON; charset=utf-8` as `application/json`; "" for ""."""
    return content_type.partition(";")[0].strip().lower()


def decoding(body: bytes, content_encoding: str, max_bytes: int) -> Decoding:
    """Decompress a body to at most `max_bytes`. `content_encoding` is the value of that header, "" without one. Raises
    BodyError."""
    names = codings(content_encoding)
    if names is None:
        raise BodyError(415, f"unsupported content encoding {content_encoding!r}; use {ACCEPTED_CODINGS} or none")
    if not names:
        if len(body) > max_bytes:
            raise BodyError(413, f"the body exceeds {max_bytes} bytes")
        return body
    try:
        return (yield from content_coding.decoding(names, body, max_bytes, complete=True))
    except NoRoomError:
        raise BodyError(503, TOO_MUCH) from None
    except DecodedTooLargeError:
        raise BodyError(413, f"the body exceeds {max_bytes} bytes when decompressed") from None
    except ValueError as error:
        raise BodyError(400, f"the body is not {content_encoding.strip()}: {error}") from None


def read_request(content: bytes, request_type: type[Any], content_type: str) -> Any:
    """The message of `request_type`. `content_type` is the value of that header, "" without one. Raises BodyError."""
    kind = media_type(content_type)
    if kind == JSON:
        return _from_json(content, request_type)
    if kind != PROTOBUF:
        raise BodyError(415, f"unsupported content type {content_type!r}; send {PROTOBUF} or {JSON}")
    if len(content) > 2 * MAX_FIELDS:  # a field has two bytes or more
        _FieldCount(content).read(0, len(content), _messages_in(request_type.DESCRIPTOR), 0)
    try:
        return request_type.FromString(content)
    except DecodeError:
        raise BodyError(400, f"the body is not a protobuf message {request_type.DESCRIPTOR.name}") from None


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _from_json(content: bytes, request_type: type[Any]) -> Any:
    if has_too_many_values(content, MAX_FIELDS):
        raise _too_many_values()
    document = _parsed(content)
    if not isinstance(document, dict):
        raise BodyError(400, f"expected an object, got {document!s:.60}")
    if too_deep(document, WALKED):
        raise BodyError(400, f"nested more than {WALKED} deep")
    _read_ids(document)
    try:
        return ParseDict(document, request_type(), ignore_unknown_fields=True, max_recursion_depth=_MAX_DEPTH)
    except (ParseError, AttributeError, TypeError, ValueError) as error:
        path = ".".join(_FIELD.findall(str(error)))
        raise BodyError(400, f"{path}: {_FIELD.sub('', str(error))}"[:_MOST_OF_AN_ERROR]) from None


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        problem = BodyError(400, f"the body is not JSON: {error}")
    try:
        # JavaScript that shortens a text may cut a character in half: the batch is not lost for that.
        text = json.dumps(json.loads(content), ensure_ascii=False)
        return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        raise problem from None


def _read_ids(value: Any) -> None:
    """Replace ids that are hex by base64, as of ProtoJSON."""
    if isinstance(value, list):
        for item in value:
            _read_ids(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _HEX_IDS and isinstance(item, str):
                try:
                    value[key] = base64.b64encode(binascii.unhexlify(item)).decode()
                except ValueError:
                    raise BodyError(400, f"{key}: expected hex digits, got {item[:60]!r}") from None
            else:
                _read_ids(item)


# ── protobuf ────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def _messages_in(descriptor: Any) -> Mapping[int, Any]:
    """The types of the fields that hold messages, by number."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


class _FieldCount:
    """Reads the wire format without decoding it. Raises BodyError for more fields than `MAX_FIELDS`, and for bytes that
    cannot be a message (decoding finds the rest)."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._fields = 0

    def read(self, at: int, end: int, messages: Mapping[int, Any], depth: int) -> None:
        """Count the fields of a message from `at` to `end`, in which fields with these numbers are `messages`."""
        if depth > _MAX_DEPTH:
            raise BodyError(400, f"messages are nested more than {_MAX_DEPTH} deep")
        while at < end:
            self._fields += 1
            if self._fields > MAX_FIELDS:
                raise _too_many_values()
            tag, at = self._number(at)
            wire_type = tag & 7
            if wire_type == 0:
                _, at = self._number(at)
            elif wire_type == 2:
                size, at = self._number(at)
                inner = messages.get(tag >> 3)
                if inner is not None and at + size <= end:
                    self.read(at, at + size, _messages_in(inner), depth + 1)
                at += size
            elif wire_type in (1, 5):
                at += 8 if wire_type == 1 else 4
            else:
                raise BodyError(400, f"the protobuf message has a field of wire type {wire_type}; OTLP has none")
        if at > end:
            raise BodyError(400, "the protobuf message is truncated")

    def _number(self, at: int) -> tuple[int, int]:
        """A number in the body, and where it ends."""
        value = 0
        for shift in range(0, 70, 7):
            if at >= len(self._body):
                raise BodyError(400, "the protobuf message is truncated")
            byte = self._body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
        raise BodyError(400, "the protobuf message has a number of more than ten bytes")


def _too_many_values() -> BodyError:
    return BodyError(413, f"the body has too many values (more than {MAX_FIELDS}); export smaller batches")
