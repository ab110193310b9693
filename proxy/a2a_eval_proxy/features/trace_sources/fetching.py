"""Asks for the trace of each turn that ends, until it is complete or its time is over."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing

from ...clock import CLOCK
from ...errors import log_once
from ...otlp.trace_service import Tracing
from ...telemetry.counters import Metrics
from ...turn import Turn
from .sources import FindTrace, SourceUnreachableError, TraceSourceError, trace_source

logger = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 4.0
"""Between two questions for a trace; each pause is twice as long as the one before."""

_LONGEST_ANSWERS_S = 60.0
"""For answers that are awaited when the time of a turn is over."""


@asynccontextmanager
async def fetching(location: str, headers: Mapping[str, str], wait_s: float) -> AsyncIterator[FetchedTraces]:
    """Traces of the source at `location` for the time of the block; a turn waits `wait_s` for its spans.

    Raises ConfigError, and SourceUnreachableError where it does not answer; what else is wrong is logged.
    """
    async with trace_source(location, headers) as find:
        try:
            await find(secrets.token_hex(16))
        except SourceUnreachableError:
            raise
        except TraceSourceError as error:
            log_once(logger, str(error), level=logging.WARNING)
        with closing(FetchedTraces(find, wait_s)) as tracing:
            yield tracing


class FetchedTraces(Tracing):
    """As `Tracing`, whose spans come from a source that is asked; a turn waits as long as it is."""

    def __init__(self, find: FindTrace, wait_s: float) -> None:
        super().__init__(Metrics(), wait_s=wait_s, expected=True)
        self._find = find
        self._time_s = wait_s
        self._fetches: dict[str, asyncio.Task[None]] = {}

    def ended(self, turn: Turn) -> None:
        super().ended(turn)
        if turn.trace_id and turn.ended_at is not None and self.complete(turn):
            self._fetches[turn.turn_id] = self._loop.create_task(self._fetch(turn, turn.ended_at + self._time_s))

    def wait_s(self, turn: Turn) -> float:
        return 0.0 if self.complete(turn) else self._time_s + _LONGEST_ANSWERS_S

    def complete(self, turn: Turn) -> bool:
        return turn.turn_id not in self._fetches

    def close(self) -> None:
        for task in self._fetches.values():
            task.cancel()
        super().close()

    async def _fetch(self, turn: Turn, until: float) -> None:
        missed, pause_s = "", _FIRST_PAUSE_S
        while True:
            try:
                found = await self._find(turn.trace_id)
                await self.take(found, found.ByteSize(), only=turn.trace_id)
                missed = ""
            except Exception as error:  # noqa: BLE001  # error boundary: also a bug costs the turn its trace alone
                missed = str(error) or repr(error)
                if not isinstance(error, TraceSourceError) or error.final:
                    break
            left_s = until - CLOCK.now()
            if left_s <= 0 or super().complete(turn):
                break
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        del self._fetches[turn.turn_id]
        if missed:
            log_once(logger, missed, level=logging.WARNING)
            self.lost(missed, turn)
        self._changed(turn, True)
