"""Paths into JSON, a part of RFC 9535: `$.a.b`, `['a']`, `[0]`, `[*]`, `.*`, `..a`. Keys compare without case. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from a2a_tool_capture.json_density import is_dense
from a2a_tool_capture.json_depth import WALKED

_STEP = re.compile(r"(\.\.|\.)?(?:\[(?:'([^']+)'|\"([^\"]+)\"|(\d+)|(\*))\]|(\*)|([\w-]+))")

DROPPED = object()
"""Returned by an edit to remove a value."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: to the member `name` (in lower case), to the item `index`, or to all. `deep`: at any depth."""

    name: str | None = None
    index: int | None = None
    deep: bool = False

    def leads_to(self, key: str | int) -> bool:
        if isinstance(key, int):
            return self.name is None and self.index in (None, key)
        return self.index is None and self.name in (None, key.casefold())


Path = tuple[Step, ...]


def parse_path(text: str) -> Path:
    """Parse a path. Raises ValueError with the position of an error."""
    if not text.startswith("$"):
        raise ValueError("a path begins with $")
    steps, position = [], 1
    while position < len(text):
        match = _STEP.match(text, position)
        dots, single, double, index, _every, star, word = match.groups() if match else (None,) * 7
        named = word or star
        if match is None or (named and not dots) or (dots == "." and not named):
            raise ValueError(
                f"not understood from {text[position:][:40]!r} on; known are .name ['name'] [0] [*] .* ..name"
            )
        name = single or double or word
        steps.append(Step(name and name.casefold(), None if index is None else int(index), dots == ".."))
        position = match.end()
    if not steps:
        raise ValueError("it leads to everything; name a field")
    return tuple(steps)


def edited(value: Any, path: Path, edit: Callable[[Any], Any], depth: int = WALKED) -> Any:
    """`value` with `edit` done to all that `path` leads to; the same object where it leads to nothing.

    What `edit` turns into `DROPPED` goes. A text that holds JSON is entered, too.
    """
    if not path:
        return edit(value)
    if depth == 0:
        return value
    if isinstance(value, str):
        inside = json_inside(value)
        new = edited(inside, path, edit, depth - 1) if isinstance(inside, dict | list) else inside
        return value if new is inside else json.dumps(new, ensure_ascii=False)
    if not isinstance(value, dict | list | tuple):
        return value
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    members = [(key, item, _member(key, item, path, edit, depth)) for key, item in pairs]
    if all(new is item for _, item, new in members):
        return value
    kept = {key: new for key, _, new in members if new is not DROPPED}
    return kept if isinstance(value, dict) else list(kept.values())


def json_inside(text: str) -> Any:
    """Returns the object, list or string that `text` is the JSON of, or None. Raises ValueError for too many values."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    if is_dense(text):
        raise ValueError("a JSON text has too many values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _member(key: Any, item: Any, path: Path, edit: Callable[[Any], Any], depth: int) -> Any:
    step = path[0]
    new = item
    if step.leads_to(key if isinstance(key, int) else str(key)):
        new = edited(item, path[1:], edit, depth - 1)
    if step.deep and new is not DROPPED:
        new = edited(new, path, edit, depth - 1)
    return new
