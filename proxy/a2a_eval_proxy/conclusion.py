"""The end of every run: what the store holds of it, put beside its suite, with the verdict and the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tool_call_evaluators.failures import unique_errors
from tool_call_evaluators.gates import Verdict
from tool_call_evaluators.judge.question import Usage
from tool_call_evaluators.judged import judge_usage
from tool_call_evaluators.model import EvalResult
from tool_call_evaluators.outcomes import Conversation, failures, follow, judge
from tool_call_evaluators.report import Report
from tool_call_evaluators.suite import Suite

from .scoring import Results, Scorer, TurnJson, in_its_case
from .store import Store, TurnQuery, every_turn


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict on a run, the report of it, and what its judges cost (answers that were kept cost nothing)."""

    verdict: Verdict
    report: Report
    usage: Usage


async def conclude(
    store: Store, scorer: Scorer, suite: Suite, run: str | None, moved: Mapping[str, str] | None = None
) -> Conclusion:
    """Hold what is stored of `run` (None: of all runs) against the suite. Everything must be scored by now.

    `moved` names the cases of turns (by id) that the store does not know. Only results of the suite's evaluators
    count. The turns are in memory together, as the report needs them.
    """
    stored = every_turn(store, TurnQuery(run=run))
    turns = [scorer.in_force(in_its_case(turn, moved or {})) async for turn in stored]
    conversations = follow(turns, suite, await conversation_results(store, scorer, run))
    verdict = judge(suite, conversations)
    usage = judge_usage(_results(conversations))
    report = Report(
        run if run is not None else _name(turns),
        {**verdict.to_dict(), "judge_usage": usage.to_dict()},
        conversations,
        suite,
        [error.to_dict() for error in unique_errors(failures(conversations))],
    )
    return Conclusion(verdict, report, usage)


async def conversation_results(store: Store, scorer: Scorer, run: str | None) -> dict[str, Results]:
    """What evaluators in force said of whole conversations, by conversation id; each result names its `case_id`."""
    results: dict[str, Results] = {}
    for conversation in await store.conversations(run):
        case_id = conversation.key.case_id
        metrics = {evaluator.metric for evaluator in scorer.evaluators(case_id).conversation}
        results.setdefault(conversation.key.conversation_id, []).extend(
            {**result, "case_id": case_id} for result in conversation.evaluations if result["evaluator"] in metrics
        )
    return results


def _name(turns: Iterable[TurnJson]) -> str:
    runs: Mapping[str, None] = dict.fromkeys(turn["run"] for turn in turns)
    return next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"


def _results(conversations: Iterable[Conversation]) -> Iterator[EvalResult]:
    for conversation in conversations:
        for turn in conversation.turns:
            yield from turn.results
        yield from conversation.results
