"""How deep JSON from elsewhere may nest, and a walk through it within these bounds. Pure.

Structure of A2A and OTLP messages is not meant: their readers bound it by what the protocols nest.
"""

from __future__ import annotations

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

_LEAVES = frozenset({str, int, float, bool, type(None)})


def too_deep(value: Any, limit: int = READ) -> bool:
    """Whether lists and objects in `value` nest deeper than `limit`. Not recursive."""
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if _LEAVES.issuperset(map(type, inner)):
            return False
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
