"""Dataclasses that read and write JSON objects field by field; errors name the field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Self

from .errors import ProtocolError

Read = Callable[[Any, str], Any]
"""Converts a JSON value, given its path, to a field's value. Raises ProtocolError."""


def read_by(read: Read, default: Any = dataclasses.MISSING) -> Any:
    """A field read by `read`; required without a default. Null means the default."""
    factory = {"default_factory": default} if callable(default) else {"default": default}
    return dataclasses.field(metadata={"read": read}, **factory)


class JsonObject:
    """Base class of dataclasses whose fields are defined with `read_by`."""

    @classmethod
    def from_dict(cls, data: Any, where: str = "") -> Self:
        """Read a JSON object. Unknown keys are ignored. Raises ProtocolError."""
        where = where or cls.__name__
        given = read_object(data, where)
        values: dict[str, Any] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = given.get(field.name)
            if value is not None:
                values[field.name] = field.metadata["read"](value, f"{where}.{field.name}")
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise ProtocolError(f"{where}.{field.name} is missing")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object; fields that are None are omitted."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # as above
        values = ((field.name, getattr(self, field.name)) for field in fields)
        return {name: _json(value) for name, value in values if value is not None}


def _json(value: Any) -> Any:
    if isinstance(value, JsonObject):
        return value.to_dict()
    if isinstance(value, Enum):
        return value.value
    return [_json(item) for item in value] if isinstance(value, tuple) else value


# ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _reader(expected: str, is_valid: Callable[[Any], bool]) -> Read:
    def read(value: Any, where: str) -> Any:
        if not is_valid(value):
            raise ProtocolError(f"{where}: expected {expected}, got {_kind(value)}")
        return value

    return read


read_any = _reader("anything", lambda value: True)
read_string = _reader("a string", lambda value: isinstance(value, str))
read_name = _reader("a string that is not empty", lambda value: isinstance(value, str) and value != "")
read_boolean = _reader("true or false", lambda value: isinstance(value, bool))
read_object = _reader("an object", lambda value: isinstance(value, dict))
_read_items = _reader("a list", lambda value: isinstance(value, list))
_read_finite = _reader("a finite number", lambda value: type(value) in (int, float) and math.isfinite(_float(value)))
_read_whole = _reader("an integer", lambda value: float(value).is_integer())


def read_number(value: Any, where: str) -> float:
    return float(_read_finite(value, where))


def read_integer(value: Any, where: str) -> int:
    return int(_read_whole(_read_finite(value, where), where))


def read_rounded(value: Any, where: str) -> int:
    return round(read_number(value, where))


def list_of(read: Read) -> Callable[[Any, str], tuple[Any, ...]]:
    def read_items(value: Any, where: str) -> tuple[Any, ...]:
        items = enumerate(_read_items(value, where))
        return tuple(read(item, f"{where}[{number}]") for number, item in items)

    return read_items


read_list = list_of(read_any)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
    return f"{value!r:.60}"
