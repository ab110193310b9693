"""Collections of bounded size. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(OrderedDict[Key, Value]):
    """A mapping of at most `most` entries; the one that was set least recently is removed first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        before = len(self)
        super().__setitem__(key, value)
        if len(self) == before:
            self.move_to_end(key)
        elif before >= self._most:
            self.popitem(last=False)


class RecentKeys(Recent[Key, None]):
    """A set of at most `most` keys; the one that was added least recently is removed first."""

    def add(self, key: Key) -> None:
        self[key] = None

    def discard(self, key: Key) -> None:
        self.pop(key, None)
