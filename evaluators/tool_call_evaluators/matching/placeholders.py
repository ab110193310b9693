"""Expected values: when two JSON values are equal, and placeholders for many values.

Two values are equal by number (an integer and a float if they are the same double: protobuf converts all numbers to
doubles, which round integers beyond 2**53), true is never 1, and lists compare by position. Placeholders are small JSON
objects at any depth of the expected arguments:


    {"$any": true}                        any value, null included
    {"$type": "string"}                   a JSON type, or a list of them: string number integer boolean object
                                          array null; 1.0 is an integer too
    {"$regex": "ORD-[0-9]+"}              a string that the whole pattern matches
    {"$approx": 3.0, "tolerance": 0.1}    a number within the tolerance (default 1e-6)
    {"$date": "2026-05-01"}               any notation of this day or instant (see `dates`); "dayfirst" says how
                                          05/01/2026 is read, "zone" where times without a zone are
    {"$json": {"qty": 2}}                 a string with this JSON value, which may be or contain placeholders
    {"$sql": "SELECT 1"}                  the same SQL statement, in the "dialect" (see `statements`)
    {"$same": "It is lost"}               a string that means the same: a judge decides (see `judged.base`)
    {"$one_of": ["EUR", "USD"]}           one of these values, which may be or contain placeholders
    {"$optional": "EUR"}                  this value, which may be or contain placeholders, or nothing at all: the entry
                                          of an object may be missing
    {"$literal": {"$any": true}}          exactly the value inside, which only looks like a placeholder

An object with any other key is an ordinary object. A placeholder with an invalid value (an unknown type, a pattern that
does not compile or takes too long) raises PlaceholderError and is never a silent mismatch. So does an actual value
of which cannot be told whether it is the expected one: an ambiguous date, a text that is too long.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations
from typing import Any, TypeAlias

from a2a_tool_capture.canonical import value_key
from a2a_tool_capture.json_limits import WALKED, too_deep

from ..texts import json_excerpt
from .dates import same_moment
from .patterns import MAX_MATCH_S, compiled_pattern, too_slow
from .statements import same_statement


def equal_values(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal; NaN equals itself."""
    if isinstance(expected, str) or isinstance(actual, str):
        return bool(expected == actual)
    return value_key(expected) == value_key(actual)


def is_number(value: Any) -> bool:
    """Whether `value` is a number in JSON, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def inner_values(value: Any) -> Collection[Any]:
    """The items of a list, or the values of an object; empty for any other value."""
    if isinstance(value, list | tuple):
        return value
    return value.values() if isinstance(value, Mapping) else ()


def with_inner(value: Any, convert: Callable[[Any], Any]) -> Any:
    """A list or an object with each inner value converted; any other value unchanged."""
    if isinstance(value, list | tuple):
        return [convert(item) for item in value]
    return {key: convert(item) for key, item in value.items()} if isinstance(value, Mapping) else value


MAX_PATTERN_LENGTH = 1_000
MAX_TEXT_LENGTH = 10_000
"""Longer strings match no pattern, and cannot be judged by their meaning."""
MAX_JSON_LENGTH = 1_000_000
"""The JSON of longer strings is not compared."""

DEFAULT_TOLERANCE = 1e-6


class PlaceholderError(ValueError):
    """An invalid placeholder in an expectation, or a value of which cannot be told whether it is the expected one."""


Texts: TypeAlias = tuple[str, str]
"""An expected text and an actual one that differs."""

SAME = "same"
"""The key in the `details` of a result with what a judge decided, a list of `{expected, actual, same, reason}`."""

_Decisions: TypeAlias = tuple[Mapping[Texts, bool], dict[Texts, None] | None]
_decisions: ContextVar[_Decisions | None] = ContextVar("decisions", default=None)


@contextmanager
def by_meaning(decided: Mapping[Texts, bool], undecided: dict[Texts, None] | None = None) -> Iterator[None]:
    """Context in which `$same` accepts what `decided` says; outside of one, texts that differ raise PlaceholderError.

    Other pairs are accepted for now, and added to `undecided`. With None, values are only shown: what cannot be told,
    also of other placeholders, differs there.
    """
    token = _decisions.set((decided, undecided))
    try:
        yield
    finally:
        _decisions.reset(token)


def decided_in(details: Iterable[Mapping[str, Any]]) -> dict[Texts, bool]:
    """What judges decided, by the `details` of results."""
    told = [item for one in details for item in one.get(SAME, ()) if isinstance(item, Mapping)]
    return {(item["expected"], item["actual"]): item["same"] for item in told}


def is_placeholder(value: Any) -> bool:
    """Whether `value` has the form of a placeholder, valid or not."""
    if type(value) is not dict and not isinstance(
        value, Mapping
    ):  # the first test is fast and sufficient for most values
        return False
    return len(value) <= _MOST_KEYS and frozenset(value) in _SHAPES


def contains_placeholder(value: Any) -> bool:
    """Whether `value` is or contains a placeholder."""
    return is_placeholder(value) or any(map(contains_placeholder, inner_values(value)))


def is_optional(value: Any) -> bool:
    """Whether `value` is an expectation of an entry that may be missing."""
    return type(value) is dict and "$optional" in value and len(value) == 1


def alternatives(placeholder: Mapping[str, Any]) -> Sequence[Any] | None:
    """The values of which `placeholder` accepts any, for `$json` of the `json_values`; None for another kind of
    placeholder. Raises PlaceholderError."""
    for name in ("$optional", "$json"):
        if name in placeholder:
            return [placeholder[name]]
    if "$one_of" not in placeholder:
        return None
    values = placeholder["$one_of"]
    if not isinstance(values, list | tuple) or not values:
        raise PlaceholderError(f"$one_of takes a list of values, got {values!r}")
    return values


def json_values(text: Any) -> list[Any]:
    """The JSON value of a text; empty for anything else. Raises PlaceholderError for a text that is too long."""
    if not isinstance(text, str):
        return []
    if len(text) > MAX_JSON_LENGTH:
        _cannot_tell(f"$json cannot compare more than {MAX_JSON_LENGTH:,} characters")
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [] if too_deep(value, WALKED) else [value]


def asks_judge(value: Any) -> bool:
    """Whether a judge may have to decide what `value`, which is or contains expected values, accepts."""
    if is_placeholder(value):
        return "$same" in value or any(map(asks_judge, () if "$literal" in value else alternatives(value) or ()))
    return any(map(asks_judge, inner_values(value.to_dict() if hasattr(value, "to_dict") else value)))


def check_placeholders(value: Any) -> None:
    """Raise PlaceholderError for the first invalid placeholder in `value`, which is no entry of an object."""
    if is_placeholder(value):
        if is_optional(value):
            raise PlaceholderError("$optional stands for an entry of an object, which may be missing")
        if (values := alternatives(value)) is not None:
            check_placeholders(values)
        elif "$literal" not in value:
            accepts(value, None)
    elif isinstance(value, Mapping):
        for item in value.values():
            check_placeholders(item["$optional"] if is_optional(item) else item)
    elif isinstance(value, list | tuple):
        for item in value:
            check_placeholders(item)


def unknown_placeholders(value: Any) -> set[str]:
    """Keys of `value`, at any depth, that begin with `$` and are not those of a placeholder: they may be misspelt.

    They are compared as data, as the keys of any other object."""
    if is_placeholder(value):
        return set().union(*map(unknown_placeholders, alternatives(value) or ()))
    keys = value if isinstance(value, Mapping) else ()
    found = {key for key in keys if isinstance(key, str) and key.startswith("$")}
    return found.union(*map(unknown_placeholders, inner_values(value)))


def readable(value: Any) -> str:
    """`value` as JSON in which placeholders are written for people: any, any string, /ORD-[0-9]+/, ≈ 14.5 ± 0.1,
    "EUR" or "USD", "EUR" or nothing, the date "2026-05-01", the JSON {"qty": 2}, the SQL "SELECT 1", what means "no".
    """
    if is_placeholder(value):
        if "$literal" in value:
            return json.dumps(value["$literal"], ensure_ascii=False, default=str)
        if "$regex" in value:
            return f"/{value['$regex']}/"
        for name, words in _IN_WORDS.items():
            if name in value:
                return f"{words} {readable(value[name])}"
        if (values := alternatives(value)) is not None:
            return " or ".join([*map(readable, values), *(["nothing"] if "$optional" in value else [])])
        if "$approx" in value:
            return f"≈ {value['$approx']}" + (f" ± {value['tolerance']}" if "tolerance" in value else "")
        types = value.get("$type", ())
        return f"any {types if isinstance(types, str) else ' or '.join(map(str, types))}".rstrip()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {readable(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(readable, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


def quoted(value: Mapping[str, Any], optional: Collection[str] = ()) -> Mapping[str, Any]:
    """`value` as an expectation of exactly this value, even if it looks like a placeholder.

    For recorded calls as expectations: their arguments are data, whatever their keys. Of these keys, `optional` ones
    may be missing.
    """
    if is_placeholder(value):
        return {"$literal": value}
    literal = {key: {"$literal": item} if contains_placeholder(item) else item for key, item in value.items()}
    return literal | {key: {"$optional": literal[key]} for key in optional if key in literal}


def accepts(placeholder: Mapping[str, Any], actual: Any, *, ignore_case: bool = False) -> bool:
    """Whether `placeholder` accepts `actual` (except those with values, see `arguments`)."""
    if "$any" in placeholder:
        if placeholder["$any"] is not True:
            raise PlaceholderError(f"$any takes true, got {placeholder['$any']!r}")
        return True
    if "$type" in placeholder:
        return _has_type(placeholder["$type"], actual)
    if "$regex" in placeholder:
        return _matches(placeholder["$regex"], actual, ignore_case=ignore_case)
    if "$same" in placeholder:
        return _means(placeholder["$same"], actual)
    if "$approx" in placeholder:
        return _is_near(placeholder["$approx"], placeholder.get("tolerance", DEFAULT_TOLERANCE), actual)
    name = "$date" if "$date" in placeholder else "$sql"
    try:
        if name == "$sql":
            return same_statement(placeholder[name], actual, placeholder.get("dialect"))
        return same_moment(placeholder[name], actual, placeholder.get("dayfirst"), placeholder.get("zone"))
    except ValueError as error:
        return _cannot_tell(f"{name} {error}")


def _cannot_tell(problem: str) -> bool:
    """False where values are only shown. Raises PlaceholderError elsewhere."""
    if (context := _decisions.get()) is None or context[1] is not None:
        raise PlaceholderError(problem)
    return False


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
        compiled = compiled_pattern(pattern, ignore_case=ignore_case, ascii_classes=True)
    except ValueError as error:
        raise PlaceholderError(f"$regex {error}") from None
    if not isinstance(actual, str) or len(actual) > MAX_TEXT_LENGTH:
        return False
    try:
        return compiled.fullmatch(actual, timeout=MAX_MATCH_S) is not None
    except TimeoutError:
        return _cannot_tell(f"$regex {too_slow(pattern, actual)}")


def _means(wanted: Any, actual: Any) -> bool:
    if not isinstance(wanted, str) or not wanted.strip() or len(wanted) > MAX_TEXT_LENGTH:
        raise PlaceholderError(f"$same takes a text of at most {MAX_TEXT_LENGTH:,} characters")
    if wanted == actual or not isinstance(actual, str) or not actual.strip():
        return bool(wanted == actual)
    if len(actual) > MAX_TEXT_LENGTH:
        return _cannot_tell(f"$same cannot compare a text of {len(actual):,} characters")
    decided, undecided = _decisions.get() or ({}, None)
    if (wanted, actual) in decided:
        return decided[wanted, actual]
    if undecided is None:
        return _cannot_tell(f"$same needs a judge, which decides whether a text means {json_excerpt(wanted)}")
    undecided[wanted, actual] = None
    return True


def _is_near(centre: Any, tolerance: Any, actual: Any) -> bool:
    if not _is_finite(centre):
        raise PlaceholderError(f"$approx takes a number, got {centre!r}")
    if not is_number(tolerance) or not tolerance >= 0:
        raise PlaceholderError(f"tolerance takes a number of at least 0, got {tolerance!r}")
    if not _is_finite(actual):
        return False
    # 3.1 is within 0.1 of 3 although the subtraction says 0.10000000000000009
    rounding = math.ulp(max(abs(float(centre)), abs(float(actual))))
    return bool(abs(actual - centre) <= tolerance + rounding)


def _is_finite(value: Any) -> bool:
    """Whether a value is a number that fits a float: not infinity, nor an integer of more than 308 digits."""
    try:
        return is_number(value) and math.isfinite(value)
    except OverflowError:
        return False


def _is_integer(value: Any) -> bool:
    return is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "null": lambda value: value is None,
}

ATOMS = {str, int, float, bool, type(None)}
"""Types without inner values."""

_IN_WORDS = {"$date": "the date", "$json": "the JSON", "$sql": "the SQL", "$same": "what means"}

PLACEHOLDERS = ("$any", "$type", "$regex", "$approx", *_IN_WORDS, "$one_of", "$optional", "$literal")

_FURTHER = {"$approx": ("tolerance",), "$date": ("dayfirst", "zone"), "$sql": ("dialect",)}
"""Keys that may stand beside that of a placeholder."""

_SHAPES = {
    frozenset({name, *further})
    for name in PLACEHOLDERS
    for count in range(len(_FURTHER.get(name, ())) + 1)
    for further in combinations(_FURTHER.get(name, ()), count)
}
_MOST_KEYS = max(map(len, _SHAPES))
