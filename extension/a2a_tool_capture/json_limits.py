"""How deep JSON from elsewhere may nest, a walk within these bounds, and how many values it may have. Pure.

Structure of A2A and OTLP messages is not meant: their readers bound it by what the protocols nest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

WRITTEN = 24
"""Levels that are written as structure: protobuf reads 100, and an object takes three. What is deeper becomes text."""

ATTRIBUTE = 32
"""Levels of an attribute's value in a span: protobuf reads 100, and a value takes two. What is deeper is cut."""

READ = 100
"""Levels of arguments and suites, as of protobuf's JSON parser. What is deeper counts as unreadable."""

WALKED = 200
"""Levels of any other JSON that is redacted, stored, compared or shown. What is deeper is not read, or not kept."""

MAX_VALUES = 500_000
"""Of a text that is parsed: an object with one member takes about 220 bytes of memory, and 6 bytes of JSON."""

_SMALL = 256 * 1024
"""A text up to this length has room for few values only."""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_STRINGS = re.compile(_STRING.encode(), re.DOTALL), re.compile(_STRING, re.DOTALL)

_LEAVES = frozenset({str, int, float, bool, type(None)})


def too_deep(value: Any, limit: int = READ) -> bool:
    """Whether lists and objects in `value` nest deeper than `limit`. Not recursive."""
    level = [value]
    for _ in range(limit):
        if _LEAVES.issuperset(map(type, level)):
            return False
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level = inner
    return any(isinstance(item, dict | list) for item in level)


def mapped(
    value: Any,
    leaf: Callable[[Any], Any],
    *,
    key: Callable[[Any], str] = str,
    depth: int = WALKED,
    beyond: Callable[[Any], Any] = lambda value: "...",
) -> Any:
    """A copy with every `leaf` and `key` converted, mappings as dicts, lists and tuples as lists; what nests deeper
    than `depth` is converted by `beyond`."""
    if not isinstance(value, Mapping | list | tuple):
        return leaf(value)
    if depth == 0:
        return beyond(value)
    below = depth - 1
    if isinstance(value, Mapping):
        items = value.items()
        return {key(name): mapped(item, leaf, key=key, depth=below, beyond=beyond) for name, item in items}
    return [mapped(item, leaf, key=key, depth=below, beyond=beyond) for item in value]


def may_have_too_many_values(text: bytes | str) -> bool:
    """Whether `text` could have more than `MAX_VALUES` values: counts marks inside strings, too."""
    return len(text) > _SMALL and _marks(text) > MAX_VALUES


def has_too_many_values(text: bytes | str, most: int | None = None) -> bool:
    """Whether `text` as JSON has more than `most` (None: `MAX_VALUES`) commas and opening brackets outside strings."""
    most = most or MAX_VALUES
    if len(text) <= _SMALL or _marks(text) <= most:
        return False
    # Valid JSON has at most two strings for each mark, so more need not be left out.
    if isinstance(text, str):
        return _marks(_STRINGS[1].sub("", text, 2 * most)) > most
    if 0 in text[:4]:  # UTF-16 or UTF-32, in which the pattern does not find the ends of strings
        return True
    return _marks(_STRINGS[0].sub(b"", text, 2 * most)) > most


def _marks(text: bytes | str) -> int:
    return sum(map(text.count, b",[{")) if isinstance(text, bytes) else sum(map(text.count, ",[{"))
