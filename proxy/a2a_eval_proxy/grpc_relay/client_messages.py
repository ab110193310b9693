"""The messages of a client's call, of which some are read ahead."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import grpc.aio

_REQUEST_S = 0.02
"""How long the call to the agent waits to learn whether the client sends one message only."""


class ClientMessages:
    """Reads the messages of a call in order. Exactly one owner; `close` when the call ends."""

    def __init__(self, context: Any) -> None:
        """`context` is the grpc.aio.ServicerContext of the client's call."""
        self._context = context
        self._read: deque[Any] = deque()
        self._reading: asyncio.Future[Any] | None = None

    async def next(self) -> Any:
        """The next message (bytes), or grpc.aio.EOF once the client has half-closed."""
        if self._read:
            return self._read.popleft()
        reading, self._reading = self._begin(), None
        return await reading

    async def only(self) -> bytes | None:
        """The client's message, if it sends one and then nothing more; None if it sends another number, or waits.

        Whatever the result, `next` returns the messages from the first one on.
        """
        try:
            async with asyncio.timeout(_REQUEST_S):
                while grpc.aio.EOF not in self._read and len(self._read) < 2:
                    message = await asyncio.shield(self._begin())
                    self._reading = None
                    self._read.append(message)
        except TimeoutError:
            return None
        return bytes(self._read[0]) if len(self._read) == 2 and self._read[1] is grpc.aio.EOF else None

    def close(self) -> None:
        """Read no more, and hold nothing."""
        self._read.clear()
        if self._reading is not None:
            self._reading.cancel()

    def _begin(self) -> asyncio.Future[Any]:
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._context.read())
        return self._reading
