"""Counts bytes of memory by holder."""

from __future__ import annotations

from collections.abc import Hashable


class HeldBytes:
    """The bytes that several holders have in memory, and the limit for all of them together.

    `total` cannot drift: it changes only together with the size recorded for a holder.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: dict[Hashable, int] = {}

    @property
    def holders(self) -> list[Hashable]:
        return list(self._sizes)

    def of(self, holder: Hashable) -> int:
        """Bytes of `holder`."""
        return self._sizes.get(holder, 0)

    def is_large(self, holder: Hashable) -> bool:
        """Whether `holder` alone has more than a quarter of the limit."""
        return self.of(holder) > self.limit // 4

    def put(self, holder: Hashable, size: int) -> None:
        """`holder` has `size` bytes now, whatever the limit."""
        self.total += size - self._sizes.get(holder, 0)
        self._sizes[holder] = size

    def add(self, holder: Hashable, more: int) -> int:
        """`holder` has `more` additional bytes, whatever the limit; returns how many it has."""
        self.total += more
        self._sizes[holder] = size = self._sizes.get(holder, 0) + more
        return size

    def take(self, holder: Hashable, more: int) -> bool:
        """Give `holder` more bytes; returns False, and changes nothing, where that would exceed the limit."""
        if self.total + more > self.limit:
            return False
        self.add(holder, more)
        return True

    def drop(self, holder: Hashable) -> None:
        """`holder` has no bytes any more."""
        self.total -= self._sizes.pop(holder, 0)
