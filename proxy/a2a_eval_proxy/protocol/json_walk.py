"""JSON text walked by position, so that pieces can be cut out of it and the rest stays byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

SPACE = " \t\n\r"
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# Control characters in strings are no JSON, but there are clients that read them.
scan_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]  # typeshed omits it
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_int=str, strict=False).scan_once  # type: ignore[attr-defined]  # typeshed omits it


Span = tuple[int, int]
Edit = tuple[int, int, str]
"""What to put in the place of a span."""


def after_space(text: str, at: int) -> int:
    while text[at] in SPACE:
        at += 1
    return at


class JsonText:
    """Methods take the position of a value's first character and return the position after it.

    They raise ValueError, IndexError or StopIteration where there is none.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def value(self, at: int) -> tuple[Any, int]:
        """The value at `at` and its end; None for one that nests deeper than Python reads."""
        try:
            return _scan(self.text, at)
        except RecursionError:
            return None, self._over(at)

    def skip(self, at: int) -> int:
        return self.value(at)[1]

    def _over(self, at: int) -> int:
        """The place after the object or array at `at`, however deep it is."""
        depth = 0
        for token in _STRUCTURE.finditer(self.text, at):
            if token[0] in ("{", "["):
                depth += 1
            elif token[0] in ("}", "]"):
                depth -= 1
                if depth == 0:
                    return token.end()
        raise ValueError(f"the value at {at} does not end")

    def members(self, at: int, visit: Callable[[str, int], int]) -> list[Span]:
        """Visit each member of the object at `at`; returns their spans, key to value, and the end as last span."""
        text = self.text
        spans: list[Span] = []
        at += 1
        while True:
            at = after_space(text, at) if text[at] in SPACE else at
            if text[at] == "}":
                break
            start = at
            if text[at] != '"':
                raise ValueError(f"expected a key at {at}")
            key, at = scan_string(text, at + 1, False)
            at = after_space(text, at) if text[at] in SPACE else at
            if text[at] != ":":
                raise ValueError(f"expected ':' at {at}")
            at += 1
            at = visit(key, after_space(text, at) if text[at] in SPACE else at)
            spans.append((start, at))
            at = at + 1 if text[at] == "," else _next_element(text, at, "}")
        spans.append((at + 1, at + 1))
        return spans

    def items(self, at: int, visit: Callable[[int], int]) -> list[Span]:
        """As `members`, for the array at `at`."""
        text = self.text
        spans: list[Span] = []
        at = after_space(text, at + 1)
        while text[at] != "]":
            start = at
            at = visit(at)
            spans.append((start, at))
            at = after_space(text, at + 1 if text[at] == "," else _next_element(text, at, "]"))
        spans.append((at + 1, at + 1))
        return spans


def _next_element(text: str, at: int, closing: str) -> int:
    """The place after the comma that follows, or of the closing bracket."""
    at = after_space(text, at) if text[at] in SPACE else at
    if text[at] == ",":
        return at + 1
    if text[at] != closing:
        raise ValueError(f"expected ',' or {closing!r} at {at}")
    return at


def cut(spans: list[Span], gone: set[int]) -> list[Edit]:
    """What to cut so that the members (or items) `gone` and just the right commas disappear."""
    cuts = []
    last = len(spans) - 2  # the final span is the end of the whole
    position = 0
    while position <= last:
        if position not in gone:
            position += 1
            continue
        first = position
        while position < last and position + 1 in gone:
            position += 1
        if position < last:
            cuts.append((spans[first][0], spans[position + 1][0], ""))
        elif first > 0:
            cuts.append((spans[first - 1][1], spans[position][1], ""))
        else:
            cuts.append((spans[first][0], spans[position][1], ""))
        position += 1
    return cuts
