"""What is reported of turns, and to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..capture.live_turns import TurnChanges
from ..store import ScoredConversation
from ..turn import Turn


class TurnListener:
    """Receives turns on the event loop. Its methods neither wait nor raise; these do nothing."""

    def opened(self, turn: Turn) -> None:
        """A turn began, or one of another process continues here. A listener may name its case."""

    def changed(self, changes: TurnChanges) -> None:
        """An open turn has changed. Reported only while a client listens to live events."""

    def ended(self, turn: Turn) -> None:
        """The agent is done with a turn, or the proxy waits no longer; it is not in the store as closed yet."""

    def closed(self, turn: Turn) -> None:
        """A closed turn is in the store, and not scored yet."""

    def scored(self, turn: Turn, results: Sequence[Mapping[str, Any]], again: bool) -> None:
        """A turn has results (JSON form). `again`: they replace earlier ones."""

    def conversation_scored(self, scored: ScoredConversation) -> None:
        """A conversation has results as a whole."""


class TurnListeners(TurnListener):
    """Passes everything on to several listeners."""

    def __init__(self, *listeners: TurnListener) -> None:
        self._listeners = list(listeners)

    def add(self, listener: TurnListener) -> None:
        self._listeners.append(listener)

    def opened(self, turn: Turn) -> None:
        for listener in self._listeners:
            listener.opened(turn)

    def changed(self, changes: TurnChanges) -> None:
        for listener in self._listeners:
            listener.changed(changes)

    def ended(self, turn: Turn) -> None:
        for listener in self._listeners:
            listener.ended(turn)

    def closed(self, turn: Turn) -> None:
        for listener in self._listeners:
            listener.closed(turn)

    def scored(self, turn: Turn, results: Sequence[Mapping[str, Any]], again: bool) -> None:
        for listener in self._listeners:
            listener.scored(turn, results, again)

    def conversation_scored(self, scored: ScoredConversation) -> None:
        for listener in self._listeners:
            listener.conversation_scored(scored)
