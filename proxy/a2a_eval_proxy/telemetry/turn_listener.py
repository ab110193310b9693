"""What is reported of turns, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from a2a_tool_capture.recent import Recent

from ..capture.turn_changes import TurnChanges
from ..clock import CLOCK
from ..store import ScoredConversation
from ..turn import Turn

ScoredTurn = tuple[Turn, Sequence[Mapping[str, Any]], bool]
"""A turn, its results (JSON form), and whether they replace earlier ones."""


class TurnListener:
    """Receives turns on the event loop. Its methods neither wait nor raise; these do nothing."""

    def opened(self, turn: Turn) -> None:
        """A turn began, or one of another process continues here. A listener may name its case."""

    def changed(self, changes: TurnChanges) -> None:
        """An open turn has changed. Reported only while a client listens to live events."""

    def ended(self, turn: Turn) -> None:
        """The agent is done with a turn, or the proxy waits no longer; it is not in the store as closed yet."""

    def closed(self, turns: Sequence[Turn]) -> None:
        """Closed turns are in the store, and not scored yet."""

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        """Turns have results."""

    def conversation_scored(self, scored: ScoredConversation) -> None:
        """A conversation has results as a whole."""


class TurnListeners(TurnListener):
    """Passes each report on to those of several listeners that do something with it."""

    def __init__(self, *listeners: TurnListener) -> None:
        self._receivers: dict[str, list[Callable[[Any], None]]] = {name: [] for name in _REPORTS}
        for name, receivers in self._receivers.items():
            setattr(self, name, partial(_pass_on, receivers))
        for listener in listeners:
            self.add(listener)

    def add(self, listener: TurnListener) -> None:
        for name, receivers in self._receivers.items():
            report = getattr(listener, name)
            if getattr(report, "__func__", None) is not getattr(TurnListener, name):
                receivers.append(report)


_REPORTS = [name for name in vars(TurnListener) if not name.startswith("_")]


def _pass_on(receivers: Sequence[Callable[[Any], None]], report: Any) -> None:
    for receive in receivers:
        receive(report)


_MOST = 10_000  # turns that are remembered


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
