"""Finds argument values that differ between runs, and the placeholders to expect instead.

A value recorded several times is volatile if it changed. A value recorded once is volatile if it looks generated (a
UUID, a time near the recording, a long random token), unless it is in a user message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from ..matching.equality import equal_values
from ..matching.placeholders import MAX_PATTERN_LENGTH, MAX_TEXT_LENGTH, is_placeholder

ANY: dict[str, Any] = {"$any": True}

_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"
_DAY = r"\d{4}-\d\d-\d\d"
_HEX = r"[0-9a-fA-F]{16,}"
_TOKEN = r"[0-9A-Za-z]{16,}"  # noqa: S105  # a pattern
_GENERATED = re.compile(rf"(?<![0-9A-Za-z])(?:(?P<uuid>{_UUID})|(?P<time>{_TIME})|(?P<token>{_TOKEN}))(?![0-9A-Za-z])")
_NEAR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a value: the user messages up to then (`said`), and the time it was `recorded`."""

    said: str
    recorded: datetime


def expected_value(seen: Sequence[Any], context: Context) -> Any:
    """The expectation for the recorded values `seen`; the literal value if possible."""
    first = seen[0]
    if all(isinstance(value, Mapping) for value in seen):
        if is_placeholder(first) and all(equal_values(first, value) for value in seen):
            return {"$literal": first}  # data, even if it looks like a placeholder
        if is_placeholder(first) or any(value.keys() != first.keys() for value in seen):
            return {"$type": "object"}
        return {key: expected_value([value[key] for value in seen], context) for key in first}
    if all(isinstance(value, list) for value in seen):
        if all(len(value) == len(first) for value in seen):
            return [expected_value(list(items), context) for items in zip(*seen, strict=True)]
        return {"$type": "array"}
    if all(equal_values(first, value) for value in seen[1:]):
        return first if len(seen) > 1 else _guessed(first, context)
    return _common(seen)


def _guessed(value: Any, context: Context) -> Any:
    """For a value recorded once."""
    if isinstance(value, str):
        if not value or value.casefold() in context.said.casefold():
            return value
        return _pattern(value, context) or value
    if isinstance(value, int | float) and not isinstance(value, bool) and _is_moment(value, context.recorded):
        return {"$type": "number"}
    return value


def _pattern(text: str, context: Context) -> dict[str, Any] | None:
    """A regular expression for a string with generated parts, with the rest unchanged."""
    if len(text) > MAX_TEXT_LENGTH:
        return None
    if re.fullmatch(_DAY, text):
        return {"$regex": _DAY} if _is_recent(text, context.recorded) else None
    out, position = "", 0
    for match in _GENERATED.finditer(text):
        pattern = _of_match(match, context)
        if pattern is not None:
            out += _escaped(text[position : match.start()]) + pattern
            position = match.end()
    if not position:
        return None
    out += _escaped(text[position:])
    return {"$regex": out} if len(out) <= MAX_PATTERN_LENGTH else {"$type": "string"}


def _of_match(match: re.Match[str], context: Context) -> str | None:
    found = match[0]
    if found.casefold() in context.said.casefold():
        return None
    if match["uuid"]:
        return _UUID
    if match["time"]:
        return _TIME if _is_recent(found[:10], context.recorded) else None
    digits = sum(character.isdigit() for character in found)
    if not 3 <= digits < len(found):  # a word, or a number such as an account
        return None
    return _HEX if re.fullmatch(_HEX, found) else _TOKEN


def _common(seen: Sequence[Any]) -> dict[str, Any]:
    """For values that changed: their common type or value."""
    if all(isinstance(value, str) for value in seen):
        for pattern in (_UUID, _TIME, _DAY, _HEX, _TOKEN):
            if all(re.fullmatch(pattern, value) for value in seen):
                return {"$regex": pattern}
        return {"$type": "string"}
    if all(isinstance(value, bool) for value in seen):
        return {"$type": "boolean"}
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in seen):
        return {"$type": "number"}
    return ANY


def _is_recent(day: str, recorded: datetime) -> bool:
    """Whether a date is at most one day from the recording; others are intended, not read from a clock."""
    try:
        return abs(date.fromisoformat(day) - recorded.date()) <= _NEAR
    except ValueError:
        return False


def _is_moment(number: float, recorded: datetime) -> bool:
    """Whether a number is a time near the recording, in s, ms or µs since the epoch."""
    return any(
        abs(number - recorded.timestamp() * unit) <= _NEAR.total_seconds() * unit for unit in (1, 1_000, 1_000_000)
    )


def _escaped(text: str) -> str:
    """`text` as a regular expression, escaped only where necessary."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)
