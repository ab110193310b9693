"""The memory for the bodies that a data port reads. Belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from ..memory import HeldBytes

SMALL_BYTES = 64 * 1024
"""A quarter of the memory for bodies is kept free for bodies up to this size."""


class BodyMemory(HeldBytes):
    """Bytes by exchange. Who must read a body waits for room, so that its sender waits.

    Several half-read bodies could wait for each other for ever. So one exchange at a time, the first that found no
    room, may exceed the limit, by one body at most.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._first: Hashable | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def is_waited_for(self) -> bool:
        """Whether someone waits for room."""
        return bool(self._waiting)

    def has_room(self, more: int, size: int) -> bool:
        """Whether a body may grow by `more` bytes to `size` bytes."""
        limit = self.limit
        return self.total + more <= (limit if size <= SMALL_BYTES else limit * 3 // 4)

    async def wait_for_room(self, holder: Hashable, more: int, size: int) -> None:
        """Give `holder` more bytes, for a body that has `size` bytes with them, as soon as there is room."""
        while not self.has_room(more, size) and holder is not self._first:
            if self._first is None:
                self._first = holder
                break
            room = asyncio.get_running_loop().create_future()
            self._waiting.append(room)
            await room
        self.add(holder, more)

    def put(self, holder: Hashable, size: int) -> None:
        """See `HeldBytes.put`."""
        super().put(holder, size)
        if holder is self._first and size <= SMALL_BYTES:
            self._first = None
        if self._waiting:
            self._wake()

    def drop(self, holder: Hashable) -> None:
        """See `HeldBytes.drop`."""
        super().drop(holder)
        if holder is self._first:
            self._first = None
        if self._waiting:
            self._wake()

    def _wake(self) -> None:
        """Those who wait look again."""
        if self._first is not None and self.total > self.limit * 3 // 4:
            return
        waiting, self._waiting = self._waiting, []
        for room in waiting:
            if not room.done():
                room.set_result(None)
