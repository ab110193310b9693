"""What a data port reports of turns, and to whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from a2a_tool_capture import Finding

from ..capture.live_turns import TurnChanges
from ..capture.lookups import OpenTurns
from ..capture.visibility import CallVisibility
from ..privacy.policy import Privacy
from ..push.registry import WebhookRegistry
from ..scoring.continuity import Continuity
from ..scoring.pipeline import Pipeline
from ..settings import Settings
from ..store import Store
from ..telemetry.turn_listener import TurnListeners
from ..turn import Turn


class TurnReports(Protocol):
    """Receives what a data port reports. The methods are those that a `TurnBook` calls; none waits or raises."""

    def opened(self, turn: Turn) -> None: ...

    def changed(self, changes: TurnChanges) -> None: ...

    def closed(self, turn: Turn) -> None: ...

    def outlives(self, turn: Turn) -> bool: ...

    def look_up(self, task_id: str, again: bool, captured: Sequence[str]) -> None: ...

    def found_late(self, task_id: str, finding: Finding) -> None: ...


class ScoringReports:
    """Passes the turns of one data port on to be stored and scored."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        pipeline: Pipeline,
        listeners: TurnListeners,
        visibility: CallVisibility,
        privacy: Privacy,
        new_turns: Callable[[TurnReports], OpenTurns],
        *,
        keeps_open_turns: bool = True,
        webhooks: WebhookRegistry | None = None,
    ) -> None:
        """`new_turns` makes the port's open turns, which report here. For `keeps_open_turns`, see `app.run_proxy`."""
        self._listeners = listeners
        self._visibility = visibility
        self._keeps_open_turns = keeps_open_turns
        self.continuity = Continuity(
            store,
            pipeline,
            lambda _: new_turns(self),
            listeners,
            agent=settings.upstream,
            turn_timeout_s=settings.turn_timeout,
            privacy=privacy,
            goes_on=None if webhooks is None else webhooks.keeps_open,
        )

    def opened(self, turn: Turn) -> None:
        self._listeners.opened(turn)

    def changed(self, changes: TurnChanges) -> None:
        self._listeners.changed(changes)

    def closed(self, turn: Turn) -> None:
        self._listeners.ended(turn)
        self._visibility.judge(turn)
        self.continuity.closed(turn)

    def outlives(self, turn: Turn) -> bool:
        return self._keeps_open_turns and self.continuity.outlives(turn)

    def look_up(self, task_id: str, again: bool, captured: Sequence[str]) -> None:
        self.continuity.look_up(task_id, again, captured)

    def found_late(self, task_id: str, finding: Finding) -> None:
        self.continuity.found_late(task_id, finding)
