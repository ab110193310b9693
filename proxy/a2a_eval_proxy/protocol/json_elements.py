"""Reads JSON text by position, so that parts can be cut out and the rest stays byte for byte. Pure.

Functions take the position of a value's first character, and raise ValueError, IndexError or StopIteration where the
text is not JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

SPACE = " \t\n\r"
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# Control characters in strings are not JSON, but some clients accept them.
_scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]  # typeshed omits it
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_int=str, strict=False).scan_once  # type: ignore[attr-defined]  # typeshed omits it

Element = tuple[int, int, str, Any]
"""A member of an object, or an item of an array: start (of a member's key), end, key ("" for an item), value."""

Edit = tuple[int, int, str]
"""The start and end of a part of the text, and what replaces it."""


def after_space(text: str, at: int) -> int:
    while text[at] in SPACE:
        at += 1
    return at


def string_end(text: str, at: int) -> int:
    """The end of the string at `at`."""
    return _scan_string(text, at + 1, False)[1]


def read_value(text: str, at: int) -> tuple[Any, int]:
    """The value at `at` and its end; None for one that nests deeper than Python reads."""
    try:
        return _scan(text, at)
    except RecursionError:
        return None, _end_of(text, at)


def _end_of(text: str, at: int) -> int:
    """The end of the object or array at `at`, however deep it is."""
    depth = 0
    for token in _STRUCTURE.finditer(text, at):
        if token[0] in ("{", "["):
            depth += 1
        elif token[0] in ("}", "]"):
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError(f"the value at {at} does not end")


def read_object(text: str, at: int, read: Callable[[str, int], tuple[Any, int]]) -> tuple[list[Element], int]:
    """The members of the object at `at`, and its end.

    `read` gets the key and the position of each value that is an object or array, and returns the value and its end.
    """
    members: list[Element] = []
    at += 1
    while True:
        if text[at] in SPACE:
            at = after_space(text, at)
        if text[at] == "}":
            return members, at + 1
        start = at
        if text[at] != '"':
            raise ValueError(f"expected a key at {at}")
        key, at = _scan_string(text, at + 1, False)
        if text[at] in SPACE:
            at = after_space(text, at)
        if text[at] != ":":
            raise ValueError(f"expected ':' at {at}")
        at += 1
        if text[at] in SPACE:
            at = after_space(text, at)
        value, at = read(key, at) if text[at] in "{[" else _scan(text, at)
        members.append((start, at, key, value))
        if text[at] == ",":
            at += 1
        elif text[at] != "}":
            at = _next_element(text, at, "}")


def read_array(text: str, at: int, read: Callable[[int], tuple[Any, int]]) -> tuple[list[Element], int]:
    """As `read_object`, for the items of the array at `at`; `read` gets the position of every item."""
    items: list[Element] = []
    at = after_space(text, at + 1)
    while text[at] != "]":
        start = at
        value, at = read(at)
        items.append((start, at, "", value))
        if text[at] != "]":
            at = after_space(text, _next_element(text, at, "]"))
    return items, at + 1


def _next_element(text: str, at: int, closing: str) -> int:
    """The position after the comma that follows, or of the closing bracket."""
    at = after_space(text, at)
    if text[at] == ",":
        return at + 1
    if text[at] != closing:
        raise ValueError(f"expected ',' or {closing!r} at {at}")
    return at


def cut(elements: Sequence[Element], removed: set[int]) -> list[Edit]:
    """The edits that remove the elements at the positions `removed`, with the commas that belong to them."""
    cuts = []
    last = len(elements) - 1
    position = 0
    while position <= last:
        if position not in removed:
            position += 1
            continue
        first = position
        while position < last and position + 1 in removed:
            position += 1
        if position < last:
            cuts.append((elements[first][0], elements[position + 1][0], ""))
        elif first > 0:
            cuts.append((elements[first - 1][1], elements[position][1], ""))
        else:
            cuts.append((elements[first][0], elements[position][1], ""))
        position += 1
    return cuts
