"""Dataclasses that read and write JSON objects field by field; errors name the field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
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


def read_any(value: Any, where: str) -> Any:
    return value


def read_string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _expected("a string", value, where)
    return value


def read_name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _expected("a string that is not empty", value, where)
    return value


def read_boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _expected("true or false", value, where)
    return value


def read_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(_float(value)):
        raise _expected("a finite number", value, where)
    return float(value)


def read_integer(value: Any, where: str) -> int:
    number = read_number(value, where)
    if not number.is_integer():
        raise _expected("an integer", value, where)
    return int(value)


def read_rounded(value: Any, where: str) -> int:
    return round(read_number(value, where))


def read_object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _expected("an object", value, where)
    return value


def list_of(read: Read) -> Callable[[Any, str], tuple[Any, ...]]:
    def read_items(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _expected("a list", value, where)
        return tuple(read(item, f"{where}[{number}]") for number, item in enumerate(value))

    return read_items


read_list = list_of(read_any)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _expected(what: str, value: Any, where: str) -> ProtocolError:
    return ProtocolError(f"{where}: expected {what}, got {_kind(value)}")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
    return f"{value!r:.60}"
