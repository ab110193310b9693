"""Bounds the memory of messages: what all calls hold, and for how long a client may read nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ..capture.held_bytes import HeldBytes
from ..net.client_limits import ClientLimits
from ..relay.client_request import SMALL_BYTES

_GRACE_S = 5.0
"""How long a client may read nothing while messages take more memory than the limit."""


class ClientReadsNothingError(Exception):
    """The client did not read a message in time. gRPC keeps the message until the client reads it or leaves."""


@dataclass(slots=True)
class _UnreadMessage:
    """A message that waits for its client. Times are those of the event loop."""

    since: float
    size: int
    limit: asyncio.Timeout


class HeldMessages:
    """The messages of all calls, within the memory for bodies of HTTP."""

    def __init__(self, bodies: HeldBytes, limits: ClientLimits) -> None:
        self._bodies = bodies
        self._limits = limits
        self._waiting: dict[object, _UnreadMessage] = {}
        """By call, the one that waits longest first."""

    def admit(self, call: object, size: int) -> bool:
        """Whether a request message of `size` bytes may be held until `release`."""
        if size > SMALL_BYTES and self._bodies.total + size > self._bodies.limit * 3 // 4:
            return False
        self._bodies.add(call, size)
        return True

    def release(self, call: object) -> None:
        """The call has ended."""
        self._bodies.drop(call)

    async def write(self, call: object, context: Any, message: bytes) -> None:
        """Send a response message; the call holds it until the client has read it.

        Raises ClientReadsNothingError.
        """
        loop, size = asyncio.get_running_loop(), len(message)
        self._bodies.add(call, size)
        try:
            async with asyncio.timeout(self._limits.send_timeout_s) as limit:
                self._waiting[call] = _UnreadMessage(loop.time(), size, limit)
                self._make_room()
                await context.write(message)
        except TimeoutError:
            self._limits.broken("send_timeout")
            raise ClientReadsNothingError from None
        finally:
            del self._waiting[call]
            self._bodies.add(call, -size)

    def _make_room(self) -> None:
        """Give the clients that have read nothing for longest `_GRACE_S` from then on, if memory is short."""
        excess = self._bodies.total - self._bodies.limit
        for waiting in self._waiting.values():
            if excess <= 0:
                return
            until = waiting.limit.when()
            if until is not None and not waiting.limit.expired():
                waiting.limit.reschedule(min(until, waiting.since + _GRACE_S))
            excess -= waiting.size
