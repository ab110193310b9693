"""What is reported of turns, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

    def closed(self, turns: Sequence[Turn]) -> None:
        """Closed turns are in the store, and not scored yet."""

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        """Turns have results."""

    def conversation_scored(self, scored: ScoredConversation) -> None:
        """A conversation has results as a whole."""


class TurnListeners(TurnListener):
    """Passes each report on to those of several listeners that do something with it."""

    def __init__(self, *listeners: TurnListener) -> None:
        def hearing(report: str) -> list[Callable[[Any], None]]:
            does_nothing = getattr(TurnListener, report)
            return [getattr(one, report) for one in listeners if getattr(type(one), report) is not does_nothing]

        self._opened, self._changed, self._ended = hearing("opened"), hearing("changed"), hearing("ended")
        self._closed, self._scored = hearing("closed"), hearing("scored")
        self._conversation_scored = hearing("conversation_scored")

    def opened(self, turn: Turn) -> None:
        for opened in self._opened:
            opened(turn)

    def changed(self, changes: TurnChanges) -> None:
        for changed in self._changed:
            changed(changes)

    def ended(self, turn: Turn) -> None:
        for ended in self._ended:
            ended(turn)

    def closed(self, turns: Sequence[Turn]) -> None:
        for closed in self._closed:
            closed(turns)

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        for report in self._scored:
            report(scored)

    def conversation_scored(self, scored: ScoredConversation) -> None:
        for report in self._conversation_scored:
            report(scored)
