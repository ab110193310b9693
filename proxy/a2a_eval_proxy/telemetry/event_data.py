"""The short form of the data of large events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SMALL_BYTES = 8_000
"""Events with at most this much JSON are not shortened."""

_TEXT_CHARS = 1_000
_MEMBER_CHARS = 16_000
"""For each member of the data: its texts together. Beyond that, lists and objects end early."""

_RECORD_DEPTH = 2
"""Objects up to this depth have a fixed set of keys, e.g. a call of a turn: they keep all of them."""

_ITEM_CHARS = 20
"""What an item counts in addition to its texts."""


def shortened(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with long texts and lists cut, and `"cut": true` if any was."""
    short, cut = {}, False
    for key, value in data.items():
        shortening = _Shortening()
        short[key] = shortening.value(value, 1)
        cut = cut or shortening.cut
    return short | {"cut": True} if cut else short


class _Shortening:
    def __init__(self) -> None:
        self._left = _MEMBER_CHARS
        self.cut = False

    def value(self, value: Any, depth: int) -> Any:
        """The short form of a value that stands `depth` levels below the event's data."""
        self._left -= _ITEM_CHARS
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            short = {}
            for key, item in value.items():
                if self._left <= 0 and depth > _RECORD_DEPTH:
                    self.cut = True
                    break
                short[self._text(str(key))] = self.value(item, depth + 1)
            return short
        if isinstance(value, list | tuple):
            items = []
            for item in value:
                if self._left <= 0:
                    self.cut = True
                    break
                items.append(self.value(item, depth + 1))
            return items
        return value

    def _text(self, text: str) -> str:
        kept = min(len(text), _TEXT_CHARS, max(self._left, 0))
        self._left -= kept
        if kept == len(text):
            return text
        self.cut = True
        return f"{text[:kept]}… [{len(text) - kept:,} more characters]"
