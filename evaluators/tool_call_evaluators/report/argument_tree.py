"""The arguments of a call that is not as expected, as a tree in which the differences are marked. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ..matching.arguments import Difference
from .shorten import Shortener

MAX_DIFFERENCES = 200
"""Of a call, in the tree."""
MAX_EQUAL = 20
"""Parts of an object or list that are as expected, next to others that are not; further ones are counted."""

Node: TypeAlias = dict[str, Any]
"""`key`, and one of: `value`, which is as expected; `problem` (of `Difference`) with `expected` or `actual` or both, in
so far as they exist; `parts`, the nodes of an object or list that differs inside. Or `equal`: the number of parts that
are left out. The key is missing where arguments differ as a whole."""

Step: TypeAlias = str | int


def argument_tree(actual: Any, differences: Sequence[Difference], short: Shortener) -> list[Node]:
    """The nodes of an `actual` object or list, and of what is missing in it."""
    marked: dict[Step, Any] = {}
    for difference in differences[:MAX_DIFFERENCES]:
        if not difference.path:
            return [_differing({}, difference, short)]
        *path, last = steps(difference.path)
        inner = marked
        for step in path:
            inner = inner.setdefault(step, {})
        inner[last] = difference
    return list(_nodes(actual, marked, short))


def _nodes(actual: Any, marked: Mapping[Step, Any], short: Shortener) -> Iterator[Node]:
    known: Mapping[Any, Any] = actual if isinstance(actual, Mapping) else dict(enumerate(actual))
    equal = 0
    for key in [*known, *(key for key in marked if key not in known)]:
        mark, named = marked.get(key), {"key": short.text(key) if isinstance(key, str) else key}
        if isinstance(mark, Difference):
            yield _differing(named, mark, short)
        elif mark is not None:
            yield {**named, "parts": list(_nodes(known[key], mark, short))}
        elif equal < MAX_EQUAL:
            equal += 1
            yield {**named, "value": short.value(known[key])}
    if more := len(known) - len(marked.keys() & known.keys()) - equal:
        yield {"equal": more}


def _differing(named: Node, difference: Difference, short: Shortener) -> Node:
    sides = {}
    if difference.problem != "unexpected":
        sides["expected"] = short.value(difference.expected)
    if difference.problem in ("different", "unexpected"):
        sides["actual"] = short.value(difference.actual)
    return {**named, "problem": difference.problem, **sides}


def steps(path: str) -> list[Step]:
    """The keys and indices of the path of a `Difference`: `items[0].qty`, `["a key"].b`."""
    found: list[Step] = []
    position = 0
    while position < len(path):
        if path[position] == "[":
            try:
                key, end = json.JSONDecoder().raw_decode(path, position + 1)
            except ValueError:
                return [*found, path[position:]]
            found.append(key)
            position = end + 1
        else:
            start = position + (path[position] == ".")
            ends = [at for at in (path.find(".", start), path.find("[", start)) if at >= 0]
            position = min(ends, default=len(path))
            found.append(path[start:position])
    return found
