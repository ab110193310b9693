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
    """Receives turns on the event loop. Its methods neither wait nor raise; these pass on what they are told."""

    listeners: Sequence[TurnListener] = ()

    def __init__(self, *listeners: TurnListener) -> None:
        self.listeners = listeners

    def opened(self, turn: Turn) -> None:
        """A turn began, or one of another process continues here. A listener may name its case."""
        for one in self.listeners:
            one.opened(turn)

    def changed(self, changes: TurnChanges) -> None:
        """An open turn has changed. Reported only while a client listens to live events."""
        for one in self.listeners:
            one.changed(changes)

    def ended(self, turn: Turn) -> None:
        """The agent is done with a turn, or the proxy waits no longer; it is not in the store as closed yet."""
        for one in self.listeners:
            one.ended(turn)

    def stored(self, turns: Sequence[Turn]) -> None:
        """Closed turns are in the store, and not scored yet."""
        for one in self.listeners:
            one.stored(turns)

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        """Turns have results."""
        for one in self.listeners:
            one.scored(scored)

    def conversation_scored(self, scored: ScoredConversation) -> None:
        """A conversation has results as a whole."""
        for one in self.listeners:
            one.conversation_scored(scored)
