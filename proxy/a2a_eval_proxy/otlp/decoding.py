"""Decodes an OTLP body: content encoding, content type, limits; OTLP/JSON to protobuf messages. Pure.

OTLP/JSON is close to ProtoJSON, with differences that matter (OTLP specification, "JSON Protobuf Encoding"): trace and
span ids are hex, enums are numbers, keys are lowerCamelCase, unknown keys are ignored. Read too, because senders do it:
names of enums, and 64-bit integers as numbers instead of decimal strings.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson
from google.protobuf.message import DecodeError

from ..protocol.content_coding import WINDOWS, wbits
from .size_limits import MAX_DEPTH, MalformedError, PayloadTooLargeError, UnsupportedError, check_json, check_protobuf

_Convert = Callable[[Any], Any]
"""Converts a JSON value to the value of a protobuf field; raises OtlpJsonError for another type."""

_HEX_FIELDS = frozenset({"trace_id", "span_id", "parent_span_id"})
_DECIMAL = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN", re.ASCII)

_HALF_CHARACTER = re.compile(
    rb"""
    ((?: [^\\]++                                 # all before it in one go: text,
       | \\[^u] | \\u(?![dD][89a-fA-F])          # escapes,
       | \\u[dD][89abAB]..\\u[dD][c-fC-F]..      # pairs of surrogates
    )*+)
    (\\u[dD][89a-fA-F][0-9a-fA-F]{2})?           # a surrogate on its own
    """,
    re.DOTALL | re.VERBOSE,
)


class OtlpJsonError(MalformedError):
    """Not an OTLP/JSON request; the message begins with the path of the wrong value."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path.lstrip('.')}: {problem}" if path else problem)
        self._problem = problem
        self._path = path

    @classmethod
    def at(cls, step: str, error: OtlpJsonError | ValueError) -> OtlpJsonError:
        """The error with a step, `.key` or `[index]`, before its path. ValueError is protobuf's: out of range."""
        return cls(error._problem, step + error._path) if isinstance(error, cls) else cls(str(error), step)


def decode_json(body: bytes, request_type: type[Any]) -> Any:
    """Returns the request as a message of `request_type`. Raises only OtlpJsonError."""
    request = request_type()
    _fill(request, _parse(body), 0)
    return request


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        # JavaScript that shortens a text may cut a character in half: the batch is not lost for that.
        return orjson.loads(_HALF_CHARACTER.sub(_replaced, body))
    except orjson.JSONDecodeError as error:
        raise OtlpJsonError(f"the body is not JSON: {error}") from None


def _replaced(found: re.Match[bytes]) -> bytes:
    return found[1] + rb"\ufffd" if found[2] else found[1]


def _fill(message: Any, content: Any, depth: int) -> None:
    if not isinstance(content, dict):
        raise _expected("an object", content)
    if depth > MAX_DEPTH:
        raise OtlpJsonError(f"nested more than {MAX_DEPTH} deep")
    fields = _fields(message.DESCRIPTOR)
    for key, value in content.items():
        target = fields.get(key)
        if target is None or value is None:
            continue
        try:
            if target.repeated:
                _extend(getattr(message, target.name), target.convert, value, depth)
            elif target.convert is None:
                inner = getattr(message, target.name)
                inner.SetInParent()  # an empty object is there too
                _fill(inner, value, depth + 1)
            else:
                setattr(message, target.name, target.convert(value))
        except (OtlpJsonError, ValueError) as error:
            raise OtlpJsonError.at(f".{key}", error) from None


def _extend(items: Any, convert: _Convert | None, values: Any, depth: int) -> None:
    if not isinstance(values, list):
        raise _expected("an array", values)
    for index, value in enumerate(values):
        try:
            if convert is None:
                _fill(items.add(), value, depth + 1)
            else:
                items.append(convert(value))
        except (OtlpJsonError, ValueError) as error:
            raise OtlpJsonError.at(f"[{index}]", error) from None


# ── one value ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Field(NamedTuple):
    name: str
    repeated: bool
    convert: _Convert | None  # None: the value is a message


@cache
def _fields(descriptor: Any) -> dict[str, _Field]:
    return {spec.json_name: _Field(spec.name, spec.is_repeated, _converter(spec)) for spec in descriptor.fields}


def _converter(spec: Any) -> _Convert | None:
    if spec.type == spec.TYPE_BYTES:
        return _hex if spec.name in _HEX_FIELDS else _base64
    if spec.enum_type is not None:
        return _enum(spec.enum_type)
    return {
        spec.CPPTYPE_MESSAGE: None,
        spec.CPPTYPE_STRING: _text,
        spec.CPPTYPE_BOOL: _truth,
        spec.CPPTYPE_DOUBLE: _double,
        spec.CPPTYPE_FLOAT: _double,
    }.get(spec.cpp_type, _integer)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _expected("a string", value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _expected("true or false", value)


def _enum(enum_type: Any) -> _Convert:
    numbers = {name: value.number for name, value in enum_type.values_by_name.items()}

    def convert(value: Any) -> int:
        return numbers[value] if isinstance(value, str) and value in numbers else _integer(value)

    return convert


def _integer(value: Any) -> int:
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _expected("an integer", value)


def _double(value: Any) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise _expected("a number", value)


def _hex(value: Any) -> bytes:
    try:
        return binascii.unhexlify(_text(value))
    except ValueError:
        raise _expected("hex digits", value) from None


def _base64(value: Any) -> bytes:
    padded = _text(value).replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except ValueError:
        raise _expected("base64", value) from None


def _expected(what: str, value: Any) -> OtlpJsonError:
    if isinstance(value, dict | list):
        return OtlpJsonError(f"expected {what}, got an {'object' if isinstance(value, dict) else 'array'}")
    shown = value[:60] if isinstance(value, str) else value
    return OtlpJsonError(f"expected {what}, got {shown!r}")


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
