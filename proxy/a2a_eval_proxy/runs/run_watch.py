"""Watches a run while its turns are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tool_call_evaluators.turn_health import turn_failure_of

from ..store import ScoredConversation, StoreHealth
from ..telemetry.turn_listener import ScoredTurn, TurnListener


class RunWatch(TurnListener):
    """Counts the turns of a run, and those that pass by their own results, whatever the gates."""

    def __init__(self) -> None:
        self.planned = self.done = self.passed_turns = self.failed_turns = 0
        self.fail_fast = False
        """Whether the run begins no conversation after one that failed."""
        self.failed = False
        """Whether a turn or a conversation has failed."""
        self.store = StoreHealth(problem=None)
        """The state of the run's store, once it is open."""

    def plan(self, turns: int) -> None:
        """That many turns are going to come, at most."""
        self.planned = turns

    def advance(self, turns: int = 1) -> None:
        """That many further turns are done, or do not come."""
        self.done += turns

    @property
    def stops(self) -> bool:
        return self.fail_fast and self.failed

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        for turn, results, _ in scored:
            failed = _any_failed(results) or turn_failure_of(turn.state, "", turn.findings) is not None
            self.failed |= failed
            self.failed_turns += failed
            self.passed_turns += not failed

    def conversation_scored(self, scored: ScoredConversation) -> None:
        self.failed |= _any_failed(scored.evaluations)


def _any_failed(results: Sequence[Mapping[str, Any]]) -> bool:
    return any(result["status"] in ("failed", "errored") for result in results)
