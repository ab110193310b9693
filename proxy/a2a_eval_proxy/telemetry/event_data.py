"""The short form of the data of large events. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SMALL_BYTES = 8_000
"""Events with at most this much JSON are not shortened."""

_TEXT_CHARS = 1_000
_MEMBER_CHARS = 32_000
"""For each member of the data: its texts together. Beyond that, lists and objects end early."""

_RECORD_KEYS, _KEY_CHARS = 30, 50
"""Objects keep this many keys in any case, so that e.g. a call has all its fields; short keys are never cut."""

_ITEM_CHARS = 8
"""What an item counts in addition to its texts."""


def shortened(data: Mapping[str, Any]) -> dict[str, Any]:
    """`data` with long texts and lists cut, and `"cut": true` if any was."""
    short: dict[str, Any] = {}
    cut = False
    for key, value in data.items():
        shortening = _Shortening()
        short[key] = shortening.value(value)
        cut = cut or shortening.cut
    return short | {"cut": True} if cut else short


class _Shortening:
    def __init__(self) -> None:
        self._left = _MEMBER_CHARS
        self.cut = False

    def value(self, value: Any) -> Any:
        """The short form of a value."""
        self._left -= _ITEM_CHARS
        if self._left < -_MEMBER_CHARS:
            self.cut = True
            return None
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            short: dict[str, Any] = {}
            for key, item in value.items():
                if self._left <= 0 and len(short) >= _RECORD_KEYS:
                    self.cut = True
                    break
                short[self._key(str(key))] = self.value(item)
            return short
        if isinstance(value, list | tuple):
            items = []
            for item in value:
                if self._left <= 0:
                    self.cut = True
                    break
                items.append(self.value(item))
            return items
        if isinstance(value, int):
            self._left -= value.bit_length() // 3  # its digits, about
        return value

    def _key(self, key: str) -> str:
        if len(key) > _KEY_CHARS:
            return self._text(key)
        self._left -= len(key)
        return key

    def _text(self, text: str) -> str:
        kept = min(len(text), _TEXT_CHARS, max(self._left, 0))
        self._left -= kept
        if kept == len(text):
            return text
        self.cut = True
        return f"{text[:kept]}… [{len(text) - kept:,} more characters]"
