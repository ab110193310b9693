"""Bounds the memory of A2A messages, which the proxy reads whole: what all calls hold together."""

from __future__ import annotations

import asyncio

from ..net.client_limits import ClientLimits
from ..net.http2_streams import Http2Stream

_ROOM_BYTES = 8 * 1024 * 1024
"""For responses over `SMALL_BYTES`; a larger one is held alone."""

_GRACE_S = 5.0
"""How long a client may read nothing while others wait for room."""

_CHECK_EVERY_S = 1.0


class _WaitingResponse:
    """A response that waits for its client."""

    def __init__(self, stream: Http2Stream, size: int, now: float) -> None:
        self.stream = stream
        self.size = size
        self.sent = stream.sent
        self.since = now
        """When the client last read something, as far as was looked."""


class HeldMessages:
    """The responses of all calls, within a room."""

    def __init__(self, limits: ClientLimits) -> None:
        self._limits = limits
        self._holders: dict[Http2Stream, _WaitingResponse] = {}
        """By the stream of the client."""
        self._freed = asyncio.Event()
        self._queue = asyncio.Lock()

    async def enter(self, stream: Http2Stream, size: int) -> None:
        """Wait until a response message of `size` bytes may be held for the client of `stream`, until `leave`."""
        if stream in self._holders:
            return
        loop = asyncio.get_running_loop()
        async with self._queue:
            while self._holders and sum(one.size for one in self._holders.values()) + size > _ROOM_BYTES:
                self._freed.clear()
                try:
                    async with asyncio.timeout(_CHECK_EVERY_S):
                        await self._freed.wait()
                except TimeoutError:
                    self._make_room(loop.time())
            self._holders[stream] = _WaitingResponse(stream, size, loop.time())

    def leave(self, stream: Http2Stream) -> None:
        """The client has read the message, or never will."""
        if self._holders.pop(stream, None) is not None:
            self._freed.set()

    def _make_room(self, now: float) -> None:
        """Give up the clients that have read nothing for `_GRACE_S`."""
        for one in [*self._holders.values()]:
            if one.stream.sent != one.sent or not one.stream.unsent:
                one.sent, one.since = one.stream.sent, now
            elif now - one.since >= _GRACE_S and one.stream.on_unread is not None:
                self._limits.broken("send_timeout")
                one.stream.on_unread()
