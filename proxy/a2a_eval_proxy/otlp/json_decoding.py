"""OTLP/JSON to protobuf messages.

It is close to ProtoJSON, with differences that matter (OTLP specification, "JSON Protobuf Encoding"): trace and
span ids are hex, enums are numbers, keys are lowerCamelCase, unknown keys are ignored. Read too, because senders do it:
names of enums, and 64-bit integers as numbers instead of decimal strings.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson

from .errors import MalformedError
from .size_limits import MAX_DEPTH

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
    convert: _Convert | None
    """None: the value is a message."""


@cache
def _fields(descriptor: Any) -> dict[str, _Field]:
    """The fields of a message type, by their JSON name."""
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
