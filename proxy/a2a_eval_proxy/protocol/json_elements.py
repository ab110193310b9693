"""Reads JSON text by position, so that a value can be replaced and the rest stays byte for byte. Pure.

Functions take the position of a value's first character, and raise ValueError, IndexError or StopIteration where the
text is not JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

SPACE = " \t\n\r"
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# Control characters in strings are not JSON, but some clients accept them.
_scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]  # typeshed omits it
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_int=str, strict=False).scan_once  # type: ignore[attr-defined]  # typeshed omits it

Element = tuple[int, int, str, Any]
"""A member of an object: start of its key, end, key, value."""


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
            at = _next_element(text, at)


def _next_element(text: str, at: int) -> int:
    """The position after the comma that follows, or of the closing brace."""
    at = after_space(text, at)
    if text[at] == ",":
        return at + 1
    if text[at] != "}":
        raise ValueError(f"expected ',' or '}}' at {at}")
    return at
