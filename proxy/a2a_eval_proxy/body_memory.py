"""The memory for the bodies that the proxy reads: requests, answers, messages of gRPC, notifications and telemetry
share it, as received and as decoded. Belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SMALL_BYTES = 64 * 1024
"""A quarter of the memory is kept free for bodies up to this size."""

LARGE_BYTES = 256 * 1024
"""What is larger is parsed in a thread, one body at a time: what parsing takes is not counted."""


class BodyMemory:
    """Bytes of all bodies that are held. Who must read a body waits for room, so that its sender waits.

    Several half-read bodies could wait for each other for ever. So one body at a time, the first that found no room,
    may exceed the limit.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.limit_of_large = limit * 3 // 4
        self.total = 0
        self.first: HeldBody | None = None
        """What may exceed the limit."""
        self.waiting: list[asyncio.Future[None]] = []
        """One for each who waits for room."""
        self.one_large = asyncio.Lock()

    def given_back(self) -> None:
        """There are fewer bytes than before: those who wait look again, the last one first.

        Where there is too little for all, who has just come gets an answer soon, and a crowd that reads nothing of its
        answers delays itself.
        """
        if self.first is None or self.total <= self.limit_of_large:
            waiting, self.waiting = self.waiting, []
            for room in reversed(waiting):
                if not room.done():
                    room.set_result(None)


class HeldBody:
    """What one exchange holds of the memory for bodies."""

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self.size = 0

    def take(self, more: int) -> bool:
        """Hold `more` bytes; False where there is no room for them."""
        memory, size = self._memory, self.size + more
        total = memory.total + more
        if total > (memory.limit if size <= SMALL_BYTES else memory.limit_of_large):
            return False
        memory.total, self.size = total, size
        return True

    async def wait(self, more: int) -> None:
        """Hold `more` bytes as soon as there is room."""
        memory = self._memory
        while not self.take(more):
            if memory.first is None or memory.first is self:
                memory.first = self
                self.add(more)
                return
            room = asyncio.get_running_loop().create_future()
            memory.waiting.append(room)
            await room

    def give_back(self, less: int) -> None:
        """Hold `less` bytes fewer than before."""
        memory = self._memory
        self.size -= less
        memory.total -= less
        if memory.first is self and self.size <= SMALL_BYTES:
            memory.first = None
        if memory.waiting:
            memory.given_back()

    def drop(self) -> None:
        """Hold nothing any more."""
        if self.size:
            self.give_back(self.size)

    def add(self, more: int) -> None:
        """Hold `more` bytes, whatever the limit."""
        self.size += more
        self._memory.total += more

    async def parse(self, size: int, work: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """Do work that takes memory and time in proportion to the `size` of a body, in bytes. Raises what it raises."""
        if size <= LARGE_BYTES:
            return work(*arguments)
        async with self._memory.one_large:
            return await asyncio.to_thread(work, *arguments)

    async def room(self, more: int, *, waits: bool) -> bool:
        """Hold `more` bytes: whether there is room for them. Who `waits` has it at last."""
        if self.size > LARGE_BYTES:  # others go on between the parts of a large body
            await asyncio.sleep(0)
        if self.take(more):
            return True
        if waits:
            await self.wait(more)
        return waits

    async def decoded(self, decoding: Generator[int, bool, bytes], *, waits: bool = False) -> bytes:
        """What a `content_coding.Decoding` decodes, each part as there is room for it. Raises what it raises."""
        try:
            size = next(decoding)
            while True:
                size = decoding.send(await self.room(size, waits=waits))
        except StopIteration as end:
            return bytes(end.value)
