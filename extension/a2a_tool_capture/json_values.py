"""Python values as JSON: arguments and results of tools."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
from collections.abc import Mapping, Set
from enum import Enum
from typing import Any, NoReturn

from .json_limits import WRITTEN

MAX_VALUES = 200_000
"""Maximum number of values, containers included, in one result or the arguments of one call."""

MAX_EXACT_INTEGER = 2**53
"""Largest integer a protobuf number holds exactly."""

_encode = json.JSONEncoder(ensure_ascii=False).encode


def plain_arguments(arguments: Any) -> dict[str, Any] | None:
    """Arguments as a JSON object, independent of later changes to the original. Never raises.

    A string that holds a JSON object, as model APIs return arguments, is read as that object. None and every other
    value give None: unknown. Values that JSON or protobuf cannot hold become strings: larger integers, infinities,
    NaN, nesting beyond `json_limits.WRITTEN`, objects other than dataclasses and pydantic models. Values that contain
    themselves, values beyond `MAX_VALUES` and values without a string form become their type in angle brackets.
    """
    if issubclass(type(arguments), str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    plain = _Plain(only_given=True).value(arguments, WRITTEN)
    return plain if isinstance(plain, dict) else None


def plain_text(value: Any) -> str:
    """A result in the extension's form: a string as it is, other values as JSON; see `plain_arguments`."""
    return _unicode(value) if issubclass(type(value), str) else _encode(_Plain().value(value, WRITTEN))


def for_protobuf(value: Any) -> Any:
    """Plain JSON with integers that a protobuf number does not hold as strings; the same object if there are none."""
    if type(value) is int:
        return value if -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER else str(value)
    if isinstance(value, dict):
        items = {key: for_protobuf(item) for key, item in value.items()}
        return value if all(items[key] is item for key, item in value.items()) else items
    if isinstance(value, list):
        entries = list(map(for_protobuf, value))
        return value if all(map(operator.is_, entries, value)) else entries
    return value


class _Plain:
    """Converts one value."""

    def __init__(self, *, only_given: bool = False) -> None:
        self._only_given = only_given
        self._left = MAX_VALUES
        self._within: set[int] = set()
        """Ids of the containers being converted: objects may refer to their parents."""

    def value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or id(value) in self._within:
            return _kind(value)
        self._within.add(id(value))
        try:
            return self._written(value, depth)
        except Exception:  # noqa: BLE001 - the agent's code, which must not fail because it is recorded
            return describe(value)
        finally:
            self._within.discard(id(value))

    def _written(self, value: Any, depth: int) -> Any:
        match value:
            case None | bool():
                return value
            case Enum():
                return self.value(value.value, depth)
            case str():
                return _unicode(value)
            case int():
                number = int(value)
                return number if abs(number) <= MAX_EXACT_INTEGER or describe(number) != _kind(number) else _kind(value)
            case float():
                return float(value) if math.isfinite(value) else str(value)
        if depth == 0:
            return describe(value)
        # copies: other threads may be changing them
        if isinstance(value, Mapping):
            return {_key(key): self.value(item, depth - 1) for key, item in list(value.items())}
        if isinstance(value, list | tuple | Set):
            return [self.value(item, depth - 1) for item in list(value)]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return {name: self.value(getattr(value, name, None), depth - 1) for name in names}
        if hasattr(value, "model_dump") and not isinstance(value, type):
            given = self._only_given and hasattr(value, "model_fields_set")
            return self.value(value.model_dump(exclude_unset=True) if given else value.model_dump(), depth - 1)
        return describe(value)


def not_json(constant: str) -> NoReturn:
    """Refuses NaN and infinities, as the `parse_constant` of `json.loads`. Raises ValueError."""
    raise ValueError(f"{constant} is not a JSON number")


def read_json(text: str | bytes) -> Any:
    """The value of JSON from the wire: integers beyond 64 bits are doubles where one is near; NaN, infinities and what
    only they are near to (`1e400`) are strings, as `plain_arguments` writes them. Raises ValueError for text that is
    not JSON, RecursionError."""
    return json.loads(text, parse_int=_integer, parse_float=_double, parse_constant=_double)


def read_exact_json(text: str) -> Any:
    """As `read_json`, with every integer as it is."""
    return json.loads(text, parse_float=_double, parse_constant=_double)


def _double(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else str(number)


def _integer(digits: str) -> float:
    number = int(digits)
    return number if -(2**63) <= number < 2**64 or abs(number) >= 2**1023 else float(number)


def _key(key: Any) -> str:
    return _unicode(key) if isinstance(key, str) else describe(key)


def _unicode(text: str) -> str:
    """Without lone surrogates, which UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def describe(value: Any) -> str:
    """`str(value)`; its type in angle brackets if that fails."""
    try:
        return _unicode(str(value))
    except Exception:  # noqa: BLE001 - as above; also integers too long and nesting too deep for `str`
        return _kind(value)


def _kind(value: Any) -> str:
    return f"<{type(value).__name__}>"
