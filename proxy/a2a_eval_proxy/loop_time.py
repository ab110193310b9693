"""The time of an event loop: long work of one agent is done in parts, so that others wait for one part only."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable

PART_BYTES = 4 * 1024
"""Of a stream of events, read in one part: about a millisecond."""

_REST_S = 0.001
"""The shortest rest: uvloop's timers count milliseconds."""

_LONGEST_REST = 16
"""A rest, in multiples of the time of the parts before it: parts have a seventeenth of the time, whatever others do."""


class LoopTime:
    """Divides the time of an event loop into parts, at most one of which runs in each of its rounds.

    In a round runs all that is ready, such as short requests, which so wait for one part, however many there are.
    Agents take turns, and so do the exchanges of one agent (J. Nagle, RFC 970). Where agents share the time, each
    millisecond of parts is followed by a rest: until the loop has been idle for as long as the parts took, and for as
    long as it worked for others meanwhile. For the time that requests wait grows with the inverse of what is idle.
    """

    def __init__(
        self,
        *,
        is_shared: bool,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        """`is_shared`: between agents; one alone has all of the time.

        `clock`: in seconds. The loop's own stands still in each round on uvloop. `cpu`: those that the loop worked.
        """
        self._is_shared = is_shared
        self._clock, self._cpu = clock, cpu
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}
        """By agent; the agent whose turn it is stands first."""
        self._is_dividing = False
        self._took = 0.0
        """Seconds of the parts since the last rest."""
        self._began = 0.0
        """When the part began, by `cpu`."""

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
                if self._is_shared:
                    loop.call_soon(self._before)
                turn.set_result(None)
                loop.call_soon(self._after, loop)  # right after the part
                return
        self._is_dividing = False

    def _before(self) -> None:
        self._began = self._cpu()

    def _after(self, loop: asyncio.AbstractEventLoop) -> None:
        """A part has run: the next follows in the next round, or after a rest."""
        if self._is_shared:
            worked = self._cpu()
            self._took += worked - self._began
            if self._took >= _REST_S:
                loop.call_later(self._took, self._rested, loop, self._clock(), worked)
                return
        loop.call_soon(self._next, loop)

    def _rested(self, loop: asyncio.AbstractEventLoop, since: float, worked: float) -> None:
        """Let the next part run, unless the loop has worked so much for others that the rest continues."""
        rest, busy = self._clock() - since, self._cpu() - worked
        left = min(self._took + 2 * busy, _LONGEST_REST * self._took) - rest
        if left > 0:
            loop.call_later(max(left, _REST_S), self._rested, loop, since, worked)
            return
        self._took = 0.0
        self._next(loop)
