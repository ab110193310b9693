"""When turns got their results, for those that this process scored lately."""

from __future__ import annotations

from collections.abc import Sequence

from a2a_tool_capture.recent import Recent

from ..clock import CLOCK
from .turn_listener import ScoredTurn, TurnListener

_MOST = 10_000
"""Turns that are remembered."""


class ScoringTimes(TurnListener):
    """The time of the first scoring by turn id, in seconds since the epoch."""

    def __init__(self) -> None:
        self._times: Recent[str, float] = Recent(_MOST)

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        now = CLOCK.now()
        for turn, _, again in scored:
            if not again:
                self._times[turn.turn_id] = now

    def of(self, turn_id: str) -> float | None:
        """None for a turn that was scored elsewhere, or too long ago."""
        return self._times.get(turn_id)
