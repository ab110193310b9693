"""What is published of turns as live events, redacted as in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..capture.live_turns import TurnChanges
from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ScoredConversation
from ..turn import Turn
from .event_bus import EventBus
from .turn_listener import TurnListener


def _named_case(turn: Turn) -> str | None:
    return turn.case_id


class TurnEvents(TurnListener):
    """Publishes events of turns on `bus`. `case_of` returns the case of an open turn."""

    def __init__(
        self, bus: EventBus, privacy: Privacy = NO_PRIVACY, case_of: Callable[[Turn], str | None] = _named_case
    ) -> None:
        self._bus = bus
        self._privacy = privacy
        self._case_of = case_of
        self._cases: dict[str, str | None] = {}
        """The cases of open turns."""

    def watch(self, open_turns: Iterable[Turn]) -> None:
        """Events during turns are published from now on, and these turns are open; none: they are not any more."""
        self._cases = {turn.turn_id: self._case_of(turn) for turn in open_turns}

    def opened(self, turn: Turn) -> None:
        if self._bus.live:
            shown = replace(self._shown(turn))
            self._cases[turn.turn_id] = shown.case_id = self._case_of(turn)
            self._bus.publish("turn.opened", {**shown.to_dict(), "evaluations": []})

    def ended(self, turn: Turn) -> None:
        self._cases.pop(turn.turn_id, None)

    def changed(self, changes: TurnChanges) -> None:
        """An open turn has changed, or is about to be closed."""
        if not self._bus.live:
            return
        turn, count, hides_text = changes.turn, changes.count, self._privacy.changes_turns
        shown = self._shown(changes.brief(all_calls=self._privacy.redactor.has_paths)) if hides_text else turn
        head = {
            "turn_id": turn.turn_id,
            "run": shown.run,
            "case_id": self._cases[turn.turn_id] if turn.turn_id in self._cases else self._case_of(turn),
            "conversation_id": shown.conversation_id,
        }
        if changes.state:
            self._bus.publish("state", {**head, "state": shown.state, "task_id": shown.task_id})
        for index, call in changes.pick(shown.tool_calls):
            self._bus.publish("tool_call", {**head, "index": index, "count": count, "call": call.to_dict()})
        if changes.removed:
            self._bus.publish("tool_call", {**head, "index": count, "count": count, "call": None})
        if changes.characters is not None:
            text = None if hides_text else changes.text
            append = not hides_text and changes.append
            self._bus.publish("text", {**head, "text": text, "append": append, "characters": changes.characters})

    def closed(self, turn: Turn) -> None:
        if self._bus.recording:  # building an event takes time
            self._bus.publish("turn.closed", {**turn.to_dict(), "evaluations": []})

    def scored(self, turn: Turn, results: Sequence[Mapping[str, Any]], again: bool) -> None:
        if self._bus.recording:
            self._bus.publish("turn.done", {**turn.to_dict(), "status": "done", "evaluations": results})

    def conversation_scored(self, scored: ScoredConversation) -> None:
        if self._bus.recording:
            self._bus.publish("conversation.done", {**scored.key._asdict(), "evaluations": scored.evaluations})

    def _shown(self, turn: Turn) -> Turn:
        return self._privacy.stored(self._privacy.redacted(turn))
