"""Watches a run while its turns are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tool_call_evaluators.turn_health import turn_failure_of

from ..store import ScoredConversation, StoreHealth
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn


class RunWatch(TurnListener):
    """Calls `scored` for each scored turn with whether it passed by its own results, whatever the gates."""

    def __init__(self, scored: Callable[[bool], None] = lambda passed: None, *, fail_fast: bool = False) -> None:
        """`fail_fast`: the run begins no conversation after one that failed."""
        self.fail_fast = fail_fast
        self.failed = False
        """Whether a turn or a conversation has failed."""
        self.store = StoreHealth(problem=None)
        """The state of the run's store, once it is open."""
        self._scored = scored

    @property
    def stops(self) -> bool:
        return self.fail_fast and self.failed

    def scored(self, turn: Turn, results: Sequence[Mapping[str, Any]], again: bool) -> None:
        failed = _any_failed(results) or turn_failure_of(turn.state, "", turn.findings) is not None
        self.failed |= failed
        self._scored(not failed)

    def conversation_scored(self, scored: ScoredConversation) -> None:
        self.failed |= _any_failed(scored.evaluations)


def _any_failed(results: Sequence[Mapping[str, Any]]) -> bool:
    return any(result["status"] in ("failed", "errored") for result in results)
