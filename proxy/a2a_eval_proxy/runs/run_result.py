"""The end of every run: what the store holds of it, put beside its suite, with the verdict and the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tool_call_evaluators.behavior_failures import unique_errors
from tool_call_evaluators.judge.usage import Usage
from tool_call_evaluators.report import Report, shortened_turn
from tool_call_evaluators.runs.outcomes import ConversationResults, failures, follow, run_verdict
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.verdict import Verdict

from ..privacy.policy import Privacy
from ..scoring.scorer import WITHOUT_SUITE, Results, Scorer, TurnJson, in_its_case
from ..store import Store, TurnQuery, every_turn
from .stored_turns import conversation_results

_SHORT = 500
"""Characters of an answer that are told as the reason of a failed task."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict on a run, and the report of it."""

    verdict: Verdict
    report: Report

    @property
    def usage(self) -> Usage:
        """What its judges cost; answers that were kept cost nothing."""
        return self.report.usage


async def conclude(
    store: Store,
    scorer: Scorer,
    suite: Suite,
    run: str | None,
    *,
    moved: Mapping[str, str] | None = None,
    texts: bool = True,
    privacy: Privacy | None = None,
) -> Conclusion:
    """Hold what is stored of `run` (None: of all runs) against the suite. Everything must be scored by now.

    `moved` names the cases of turns (by id) that the store does not know. Only results of the suite's evaluators
    count. All turns are in memory together, their long texts cut as a report cuts them; without `texts` only what a
    verdict needs of them. `privacy` says how turns are seen that were stored under other rules.
    """
    turns = []
    async for stored in every_turn(store, TurnQuery(run=run)):
        seen = stored if privacy is None else privacy.stored_turn(stored)
        turn = scorer.in_force(in_its_case(seen, moved or {}))
        turns.append(shortened_turn(turn) if texts else without_texts(turn))
    return concluded(suite, turns, await _conversation_results(store, scorer, run), run)


def concluded(
    suite: Suite | None, turns: Sequence[TurnJson], results: ConversationResults, run: str | None
) -> Conclusion:
    """Hold these turns, and what was said of their conversations, against the suite; see `conclude`.

    Without a suite, against what is scored without one.
    """
    conversations = follow(turns, suite, results)
    verdict = run_verdict(suite or WITHOUT_SUITE, conversations)
    report = Report(
        run if run is not None else _name(turns),
        verdict.to_dict(),
        conversations,
        suite,
        [error.to_dict() for error in unique_errors(failures(conversations))],
    )
    return Conclusion(verdict, report)


async def _conversation_results(store: Store, scorer: Scorer, run: str | None) -> dict[str, Results]:
    """What evaluators in force said of whole conversations."""

    def in_force(result: Mapping[str, Any]) -> bool:
        return result["evaluator"] in {item.metric for item in scorer.evaluators(result["case_id"]).conversation}

    found = await conversation_results(store, run)
    return {key: [result for result in results if in_force(result)] for key, results in found.items()}


def without_texts(turn: TurnJson) -> TurnJson:
    """A turn without what makes it large: tool results, the long answer, what evaluators say in detail."""
    return {
        **turn,
        "response_text": turn["response_text"][:_SHORT],
        "tool_calls": [{**call, "result": None} for call in turn["tool_calls"]],
        "evaluations": [
            {**result, "details": {key: value for key, value in result["details"].items() if key == "judge"}}
            for result in turn["evaluations"]
        ],
    }


def _name(turns: Iterable[TurnJson]) -> str:
    runs: Mapping[str, None] = dict.fromkeys(turn["run"] for turn in turns)
    return next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"
