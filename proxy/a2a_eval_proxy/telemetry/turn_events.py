"""What is published of turns as live events, redacted as in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from ..capture.turn_changes import TurnChanges
from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ScoredConversation
from ..turn import Turn, call_times
from .event_bus import EventBus
from .turn_listener import ScoredTurn, TurnListener

MOST_WAITING = 1_000
"""Maximum number of reports that wait to be redacted; with more, events are lost, and listeners are informed."""

NamedData = tuple[str, Mapping[str, Any]]  # the name and the data of an event


class TurnEvents(TurnListener):
    """Publishes events of turns on `bus`. `case_of` returns the case of an open turn.

    Redaction takes its time, with custom patterns up to half a second for a text: it has a thread of its own.
    """

    def __init__(
        self,
        bus: EventBus,
        privacy: Privacy = NO_PRIVACY,
        case_of: Callable[[Turn], str | None] = attrgetter("case_id"),
    ) -> None:
        self._bus = bus
        self._privacy = privacy
        self._case_of = case_of
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="live-events") if privacy.changes_turns else None
        self._waiting = 0

    async def close(self) -> None:
        """Publish what waits to be redacted, and then nothing more."""
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)

    async def open_turns(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        """The JSON form of open turns, which do not change meanwhile, redacted."""
        named = [replace(turn, case_id=self._case_of(turn)) for turn in turns]
        return await asyncio.to_thread(lambda: [self._open_turn(turn) for turn in named])

    # ── reports of capture and scoring ──────────────────────────────────────────────────────────────────

    def opened(self, turn: Turn) -> None:
        if self._bus.recording:
            copy = replace(turn, case_id=self._case_of(turn), findings=list(turn.findings))
            self._publish(lambda: [("turn.opened", self._open_turn(copy))])

    def changed(self, changes: TurnChanges) -> None:
        if self._bus.recording:
            self._publish(partial(self._changes, changes, self._case_of(changes.turn)))

    def stored(self, turns: Sequence[Turn]) -> None:
        for turn in turns if self._bus.recording else ():
            self._publish(partial(_with_results, "turn.closed", turn, {"evaluations": []}))

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        for turn, results, _ in scored if self._bus.recording else ():
            self._publish(partial(_with_results, "turn.done", turn, {"status": "done", "evaluations": results}))

    def conversation_scored(self, scored: ScoredConversation) -> None:
        if self._bus.recording:
            named = {name: value for name, value in scored.key._asdict().items() if name != "agent_name" or value}
            data = {**named, "evaluations": scored.evaluations}
            self._publish(lambda: [("conversation.done", data)])

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────

    def _publish(self, make: Callable[[], Iterable[NamedData]]) -> None:
        """Publish what `make` returns, in order; where there are rules, once they were applied."""
        if self._thread is None:
            for name, data in make():
                self._bus.publish(name, data)
        elif self._waiting >= MOST_WAITING:
            self._bus.lose()
        else:
            self._waiting += 1
            asyncio.get_running_loop().run_in_executor(self._thread, lambda: list(make())).add_done_callback(self._made)

    def _made(self, done: asyncio.Future[list[NamedData]]) -> None:
        self._waiting -= 1
        for name, data in () if done.cancelled() else done.result():
            self._bus.publish(name, data)

    def _open_turn(self, turn: Turn) -> dict[str, Any]:
        """The text of an open turn may end within a secret, which rules would not find: it is not shown."""
        if self._privacy.changes_turns:
            length = len(turn.response_text)
            text = f"[not shown while the turn is open: {length} characters]" if length else ""
            shown = replace(self._shown(replace(turn, response_text="")), response_text=text)
        else:
            shown = turn
        return {**shown.to_dict(), "evaluations": []}

    def _changes(self, changes: TurnChanges, case_id: str | None) -> Iterable[NamedData]:
        turn, count, hides_text = changes.turn, changes.count, self._privacy.changes_turns
        shown = self._shown(changes.brief()) if hides_text else turn
        head = {"turn_id": turn.turn_id, "run": shown.run, "case_id": case_id, "conversation_id": shown.conversation_id}
        head |= {"agent_name": turn.agent_name} if turn.agent_name else {}
        for index, call in changes.pick(shown.tool_calls):
            data = {**head, "index": index, "count": count, "call": call.to_dict(), "times": call_times(call)}
            yield "tool_call", data
        if changes.removed:
            yield "tool_call", {**head, "index": count, "count": count, "call": None, "times": None}
        if changes.characters is not None:
            text, append = (None, False) if hides_text else (changes.text, changes.append)
            yield "text", {**head, "text": text, "append": append, "characters": changes.characters}
        if changes.state:  # last: what the agent did before its task ended comes before that
            yield "state", {**head, "state": shown.state, "task_id": shown.task_id}

    def _shown(self, turn: Turn) -> Turn:
        return self._privacy.stored(self._privacy.redacted(turn))


def _with_results(name: str, turn: Turn, more: Mapping[str, Any]) -> list[NamedData]:
    return [(name, {**turn.to_dict(), **more})]
