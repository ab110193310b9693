"""Expected values that stand for many: any value, a type, a regular expression, a number give or take.

Written inside expected arguments, at any depth, as small objects that JSON and YAML can carry:

    {"$any": true}                        any value, null included
    {"$type": "string"}                   a JSON type, or a list of them: string number integer boolean object
                                          array null; 1.0 is an integer too
    {"$regex": "ORD-[0-9]+"}              a text that the whole pattern matches
    {"$approx": 3.0, "tolerance": 0.1}    a number at most that far away (default 1e-6)
    {"$literal": {"$any": true}}          exactly the value within, where it only looks like a placeholder

An object with any other key is not a placeholder but an ordinary object. A placeholder whose own value is
wrong (an unknown type, a pattern that does not compile, or takes for ever) is a PlaceholderError, never a silent
mismatch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .patterns import compiled_pattern

MAX_PATTERN_LENGTH = 1_000
MAX_TEXT_LENGTH = 10_000
"""Longer texts match no pattern."""
MAX_MATCH_S = 1.0
"""A pattern that takes longer on one text is an error: some backtrack for ages where they nest repetitions."""

DEFAULT_TOLERANCE = 1e-6


class PlaceholderError(ValueError):
    """A placeholder in an expectation that cannot mean anything."""


def is_placeholder(value: Any) -> bool:
    """Whether `value` has the shape of a placeholder (which may still be an erroneous one)."""
    if type(value) is not dict and not isinstance(value, Mapping):  # the first is fast, and settles most
        return False
    return len(value) <= 2 and frozenset(value) in _SHAPES


def contains_placeholder(value: Any) -> bool:
    """Whether `value` is a placeholder or has one inside."""
    inner: Iterable[Any] = ()
    if isinstance(value, list | tuple):
        inner = value
    elif type(value) is dict or isinstance(value, Mapping):
        if is_placeholder(value):
            return True
        inner = value.values()
    return any(map(contains_placeholder, [item for item in inner if type(item) not in _ATOMS]))


def check_placeholders(value: Any) -> None:
    """Raise PlaceholderError for the first erroneous placeholder in `value`."""
    if is_placeholder(value):
        if "$literal" not in value:
            accepts(value, None)
    elif isinstance(value, Mapping):
        for item in value.values():
            check_placeholders(item)
    elif isinstance(value, list | tuple):
        for item in value:
            check_placeholders(item)


def quoted(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """`value` so that, expected, it stands for itself even where it looks like a placeholder.

    For calls an agent made that serve as an expectation: their arguments are data, whatever their keys.
    """
    if is_placeholder(value):
        return {"$literal": value}
    return {key: {"$literal": item} if contains_placeholder(item) else item for key, item in value.items()}


def accepts(placeholder: Mapping[str, Any], actual: Any, *, ignore_case: bool = False) -> bool:
    """Whether `actual` is a value `placeholder` stands for ($literal excepted: it compares, see matching)."""
    if "$any" in placeholder:
        if placeholder["$any"] is not True:
            raise PlaceholderError(f"$any takes true, got {placeholder['$any']!r}")
        return True
    if "$type" in placeholder:
        return _has_type(placeholder["$type"], actual)
    if "$regex" in placeholder:
        return _matches(placeholder["$regex"], actual, ignore_case=ignore_case)
    return _is_near(placeholder["$approx"], placeholder.get("tolerance", DEFAULT_TOLERANCE), actual)


def _has_type(names: Any, actual: Any) -> bool:
    wanted = [names] if isinstance(names, str) else names
    known = isinstance(wanted, list | tuple) and all(isinstance(name, str) and name in _TYPES for name in wanted)
    if not known or not wanted:
        raise PlaceholderError(f"$type takes one or a list of {', '.join(_TYPES)}; got {names!r}")
    return any(_TYPES[name](actual) for name in wanted)


def _matches(pattern: Any, actual: Any, *, ignore_case: bool) -> bool:
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_LENGTH:
        raise PlaceholderError(f"$regex takes a pattern of at most {MAX_PATTERN_LENGTH} characters")
    try:
        compiled = compiled_pattern(pattern, ignore_case=ignore_case)
    except ValueError as error:
        raise PlaceholderError(f"$regex {error}") from None
    if not isinstance(actual, str) or len(actual) > MAX_TEXT_LENGTH:
        return False
    try:
        return compiled.fullmatch(actual, timeout=MAX_MATCH_S) is not None
    except TimeoutError:
        raise PlaceholderError(
            f"$regex {pattern!r} took more than {MAX_MATCH_S:g} s on a text of {len(actual)} characters; "
            "write it without repetitions within repetitions"
        ) from None


def _is_near(centre: Any, tolerance: Any, actual: Any) -> bool:
    if not _is_finite(centre):
        raise PlaceholderError(f"$approx takes a number, got {centre!r}")
    if not _is_number(tolerance) or not tolerance >= 0:
        raise PlaceholderError(f"tolerance takes a number of at least 0, got {tolerance!r}")
    if not _is_finite(actual):
        return False
    # 3.1 is within 0.1 of 3 although the subtraction says 0.10000000000000009
    rounding = math.ulp(max(abs(float(centre)), abs(float(actual))))
    return bool(abs(actual - centre) <= tolerance + rounding)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    """Whether it is a number that a float can hold: infinity and whole numbers of more than 308 digits are none."""
    try:
        return _is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "null": lambda value: value is None,
}

_ATOMS = {str, int, float, bool, type(None)}

_SHAPES = {
    frozenset({"$any"}),
    frozenset({"$type"}),
    frozenset({"$regex"}),
    frozenset({"$approx"}),
    frozenset({"$approx", "tolerance"}),
    frozenset({"$literal"}),
}
