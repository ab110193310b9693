"""The time of an event loop: long work of one agent is done in parts, so that others wait for one part only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

PART_BYTES = 4 * 1024
"""Of a stream of events, read in one part: about a millisecond."""


class LoopTime:
    """Divides the time of an event loop into parts, at most one of which runs in each of its rounds.

    In a round runs all that is ready, such as short requests, which so wait for one part, however many there are.
    Agents take turns, and so do the exchanges of one agent (J. Nagle, RFC 970). Parts take half of the time at most.
    """

    def __init__(self, *, is_shared: bool) -> None:
        """`is_shared`: between agents; one alone has all of the time."""
        self._is_shared = is_shared
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """By agent; the agent whose turn it is stands first."""
        self._is_dividing = False

    async def part(self, agent: Hashable) -> None:
        """Returns when a part of the work for this agent may run: up to where the caller waits for something."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(agent, deque()).append(turn)
        if not self._is_dividing:
            self._is_dividing = True
            loop.call_soon(self._next, loop)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the next part run, in the next round."""
        while self._waiting:
            agent, turns = next(iter(self._waiting.items()))
            del self._waiting[agent]
            turn = turns.popleft()
            if turns:
                self._waiting[agent] = turns
            if not turn.done():  # else its exchange has ended
                turn.set_result(None)
                loop.call_soon(self._after, loop, loop.time())  # right after the part
                return
        self._is_dividing = False

    def _after(self, loop: asyncio.AbstractEventLoop, began: float) -> None:
        """A part has run: the next follows once the time that it took has passed again."""
        took = loop.time() - began if self._is_shared else 0
        loop.call_later(took, self._next, loop)
