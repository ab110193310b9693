"""What is reported of turns, and to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..capture.turn_changes import TurnChanges
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

    def stored(self, turns: Sequence[Turn]) -> None:
        """Closed turns are in the store, and not scored yet."""

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        """Turns have results."""

    def conversation_scored(self, scored: ScoredConversation) -> None:
        """A conversation has results as a whole."""


class TurnListeners(TurnListener):
    """Passes each report on to several listeners."""

    def __init__(self, *listeners: TurnListener) -> None:
        self._listeners = listeners

    def opened(self, turn: Turn) -> None:
        for one in self._listeners:
            one.opened(turn)

    def changed(self, changes: TurnChanges) -> None:
        for one in self._listeners:
            one.changed(changes)

    def ended(self, turn: Turn) -> None:
        for one in self._listeners:
            one.ended(turn)

    def stored(self, turns: Sequence[Turn]) -> None:
        for one in self._listeners:
            one.stored(turns)

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        for one in self._listeners:
            one.scored(scored)

    def conversation_scored(self, scored: ScoredConversation) -> None:
        for one in self._listeners:
            one.conversation_scored(scored)
