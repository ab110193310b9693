"""Counts bytes of memory by what holds them."""

from __future__ import annotations

from collections.abc import Hashable


class HeldBytes:
    """The bytes that several holders have in memory, and the most that they may have in all.

    `total` cannot drift: it is changed only together with what is known of a holder.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: dict[Hashable, int] = {}

    def is_large(self, holder: Hashable) -> bool:
        """Whether `holder` alone has more than a quarter of what all may have."""
        return self._sizes.get(holder, 0) > self.limit // 4

    def put(self, holder: Hashable, size: int) -> None:
        """`holder` has `size` bytes now, whatever the limit."""
        self.total += size - self._sizes.get(holder, 0)
        self._sizes[holder] = size

    def take(self, holder: Hashable, more: int) -> bool:
        """Give `holder` so many bytes more; False, and nothing changes, where the limit is in the way."""
        if self.total + more > self.limit:
            return False
        self.put(holder, self._sizes.get(holder, 0) + more)
        return True

    def drop(self, holder: Hashable) -> None:
        """`holder` has nothing any more."""
        self.total -= self._sizes.pop(holder, 0)
