"""The end of every run: its stored turns compared with the suite, the verdict and the report; also for the admin API
and the pages, and counted while it lasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tool_call_evaluators.behavior_failures import unique_errors
from tool_call_evaluators.judged.base import judge_with
from tool_call_evaluators.judged.unique_errors import errors_of_run
from tool_call_evaluators.report import Report, html_report, shortened_turn
from tool_call_evaluators.runs.outcomes import (
    ConversationResults,
    agent_of_conversation,
    failures,
    follow,
    run_verdict,
    verdict_of_suites,
)
from tool_call_evaluators.simulation.record import SIMULATED_USER
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import CombinedSuite, combined
from tool_call_evaluators.texts import counted
from tool_call_evaluators.verdict import MetricSummary, Verdict

from ..otlp.trace_service import Tracing
from ..privacy.policy import NO_PRIVACY, Privacy
from ..scoring.case_book import CaseBook
from ..scoring.executor import ScoringExecutor
from ..scoring.pipeline import Pipeline
from ..scoring.scorer import WITHOUT_SUITE, Results, Scorer, TurnJson, in_its_case
from ..store import ScoredConversation, Store, StoreHealth, TurnQuery, every_turn
from ..store.base import RunSummary
from ..telemetry.counters import Metrics
from ..telemetry.turn_listener import ScoredTurn, TurnListener
from .selection import selected_turns
from .stored_turns import conversation_results, without_texts

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunResult:
    verdict: Verdict
    report: Report

    @property
    def unreachable(self) -> str:
        """How many conversations broke off since the agent could not be reached, and a reason; empty: none did."""
        broke_off = [*filter(None, (item.unreachable for item in self.report.conversations))]
        return f"{counted(len(broke_off), 'conversation')} broke off: {broke_off[0]}" if broke_off else ""

    def allowing_no_capture(self) -> RunResult:
        """This result without the reasons that lie only in tool calls that no source could show.

        Unchanged if the calls of any turn are unknown for another reason, such as an unreadable response.
        """
        if not self.report.not_visible or not self.report.could_be_allowed:
            return self
        if not self.report.parts:
            return _allowing_no_capture(self.report)
        whole = _together([_allowing_no_capture(part) for part in self.report.parts], self.report.suite)
        report = replace(self.report, verdict=whole.report.verdict, parts=whole.report.parts)
        return RunResult(whole.verdict, report)


def _allowing_no_capture(report: Report) -> RunResult:
    verdict = run_verdict(report.suite or WITHOUT_SUITE, report.conversations, allow_no_capture=True)
    return RunResult(verdict, replace(report, verdict=verdict.to_dict()))


@asynccontextmanager
async def scoring(
    store: Store,
    suite: Suite,
    privacy: Privacy,
    executor: ScoringExecutor | None = None,
    listener: TurnListener | None = None,
    tracing: Tracing | None = None,
) -> AsyncIterator[tuple[Pipeline, Scorer]]:
    """A pipeline that scores turns of `store` by `suite` until the end of the block, and its scorer."""
    cases = CaseBook(suite, privacy=privacy)
    scorer = Scorer(cases, suite, privacy.judge_cache(store.judge_cache))
    listener = listener or TurnListener()
    pipeline = Pipeline(store, cases, scorer, listener, Metrics(), tracing, privacy, executor)
    try:
        yield pipeline, scorer
    finally:
        await pipeline.close()


async def load_and_judge_run(
    store: Store,
    scorer: Scorer,
    suites: Sequence[Suite],
    run: str | None,
    *,
    moved: Mapping[str, str] | None = None,
    texts: bool = True,
    privacy: Privacy = NO_PRIVACY,
    partial: bool = False,
) -> RunResult:
    """Judge the stored turns of `run` (None: of all runs) by the suites. Everything must be scored by now.

    `moved` has the cases of turns, by turn id, that differ from the stored ones. Only results of the suite's
    evaluators count; with `partial`, and with several suites, only turns of their cases. All turns are in memory
    together, with texts shortened for the report; without `texts`, with what the verdict needs. `privacy` redacts turns
    that were stored under other rules. The first suite's judge, if there is one, merges distinct errors that mean the
    same, unless content must not be kept.
    """
    turns = []
    async for stored in every_turn(store, TurnQuery(run=run)):
        turn = scorer.in_force(in_its_case(privacy.stored_turn(stored), moved or {}))
        turns.append(shortened_turn(turn) if texts else without_texts(turn))
    result = judge_suites(suites, turns, await _conversation_results(store, scorer, run), run, partial=partial)
    left = len(turns) - len(result.report.turns)
    if left and len(suites) > 1 and not partial:
        logger.warning("not counted, as they belong to no case of the suites: %s", counted(left, "turn"))
    cache = privacy.judge_cache(store.judge_cache)
    judge = None if cache is None else judge_with(suites[0].judge, cache)
    errors, spent = await errors_of_run(failures(result.report.conversations), judge)
    merged = replace(result.report, unique_errors=[error.to_dict() for error in errors], merging=spent)
    return RunResult(result.verdict, merged)


def judge_suites(
    suites: Sequence[Suite],
    turns: Sequence[TurnJson],
    results: ConversationResults,
    run: str | None,
    *,
    partial: bool = False,
) -> RunResult:
    """As `judge_turns`; several suites judge the turns of their own cases, and all must pass."""
    if len(suites) == 1 and not partial:
        return judge_turns(suites[0], turns, results, run)
    judged = [selected_turns(suite, turns, partial=partial) for suite in suites]
    parts = [judge_turns(*each, results, run) for each in judged]
    if len(parts) == 1:
        return parts[0]
    return _together(parts, combined(suites))


def _together(parts: Sequence[RunResult], whole: Suite | None) -> RunResult:
    """The result of a run of several suites; `whole` is what `combined` makes of them."""
    conversations = [item for part in parts for item in part.report.conversations]
    verdict = verdict_of_suites(
        whole or WITHOUT_SUITE, conversations, [(part.report.title, part.verdict) for part in parts]
    )
    report = Report(parts[0].report.run, verdict.to_dict(), conversations, whole, parts=[part.report for part in parts])
    return RunResult(verdict, report)


def judge_turns(
    suite: Suite | None,
    turns: Sequence[TurnJson],
    results: ConversationResults,
    run: str | None,
    prefix: str = "",
) -> RunResult:
    """Judge these turns and the `results` of their conversations by the suite; see `load_and_judge_run`.

    Without a suite, by the evaluators that need no expectation. `prefix`: what the names of conversations begin with.
    """
    conversations = [replace(one, label=prefix + one.label, prefix=prefix) for one in follow(turns, suite, results)]
    verdict = run_verdict(suite or WITHOUT_SUITE, conversations)
    report = Report(
        run if run is not None else _name(turns),
        verdict.to_dict(),
        conversations,
        suite,
        [error.to_dict() for error in unique_errors(failures(conversations))],
    )
    return RunResult(verdict, report)


async def _conversation_results(store: Store, scorer: Scorer, run: str | None) -> dict[str, Results]:

    def in_force(result: Mapping[str, Any]) -> bool:
        metrics = {item.metric for item in scorer.evaluators(result["case_id"]).conversation}
        return result["evaluator"] in metrics | {SIMULATED_USER}

    found = await conversation_results(store, run)
    return {key: [result for result in results if in_force(result)] for key, results in found.items()}


def _name(turns: Iterable[TurnJson]) -> str:
    runs: Mapping[str, None] = dict.fromkeys(turn["run"] for turn in turns)
    return next(iter(runs)) if len(runs) == 1 else f"{len(runs)} runs"


class RunWatch(TurnListener):
    """Counts the turns of a run, and those that pass by their own results, whatever the gates."""

    def __init__(self) -> None:
        self.planned = self.done = self.passed_turns = self.failed_turns = 0
        self.fail_fast = False  # whether the run begins no conversation after one that failed
        self.failed = False  # whether a turn or a conversation has failed
        self.store = StoreHealth(problem=None)  # the state of the run's store, once it is open

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
        for _, results, _ in scored:
            failed = _any_failed(results)
            self.failed |= failed
            self.failed_turns += failed
            self.passed_turns += not failed

    def conversation_scored(self, scored: ScoredConversation) -> None:
        self.failed |= _any_failed(scored.evaluations)


def _any_failed(results: Sequence[Mapping[str, Any]]) -> bool:
    return any(result["status"] in ("failed", "errored") for result in results)


MAX_TURNS = 10_000  # a longer run is summarized in numbers only: a verdict needs all turns in memory
MAX_REASONS = 100
_PAGE = 200


class LongRunError(Exception):
    """The run has more turns than are judged, or compared, in memory together; the message names the command for it."""


class JudgedBy(NamedTuple):
    """What judges a run, or the turns of some of several agents in it."""

    suite: Suite | None = None
    suite_file: str | None = None
    current: bool = False
    """Whether traffic belongs to the run now."""
    agents: frozenset[str | None] = frozenset({None})
    """Whose turns it judges, where there is more than one such judge; cases for other agents do not count. None: of
    any other agent."""

    @property
    def one_file(self) -> str | None:
        """The file of the suite, where that is one, whose changes can be shown."""
        return None if isinstance(self.suite, CombinedSuite) else self.suite_file

    def plan(self, came: Collection[str | None]) -> Suite | None:
        """The suite without cases for other agents, and without those for several that did not come."""
        names = {name for name in self.agents if name is not None}
        return self.suite.of_agents(names, came) if self.suite and names else self.suite


Judges = Callable[[Collection[str | None]], Sequence[JudgedBy]]
"""What judges a run with turns of these agents: at least one."""


async def judged_run(store: Store, judges: Judges, run: RunSummary, *, texts: bool = False) -> RunResult:
    """The stored turns of a run, judged now; `texts`: with shortened texts, for a report.

    A suite judges its `current` run, where a case that has not come yet counts as missing, and runs with turns of its
    cases. Others are judged by the evaluators that need no expectation. Turns of several agents are judged by the
    suites of these, each by its own, and all must pass. Raises LongRunError, StoreError.
    """
    if run.turns > MAX_TURNS:
        raise LongRunError(
            f"run {run.name!r} has more than {MAX_TURNS:,} turns; use `a2a-eval-proxy evaluate --report DIR`"
        )
    shortened = shortened_turn if texts else without_texts
    turns = [shortened(turn) async for turn in every_turn(store, TurnQuery(run=run.name), _PAGE)]
    results = await conversation_results(store, run.name)
    found = judges({turn.get("agent_name") for turn in turns})
    return await asyncio.to_thread(_judged_by_each, found, turns, results, run.name)


def _judged_by_each(
    judges: Sequence[JudgedBy], turns: Sequence[TurnJson], results: ConversationResults, run: str
) -> RunResult:
    if len(judges) == 1:
        suite = _in_force(judges[0], turns)
        if isinstance(suite, CombinedSuite):
            return judge_suites(suite.parts, turns, results, run)
        return judge_turns(suite, turns, results, run)
    parts = []
    for by, own in turns_of_each(judges, turns):
        prefix = (", ".join(sorted(filter(None, by.agents))) or "without agent") + ": "
        suite = _in_force(by, own, {name for other in judges if other is not by for name in other.agents})
        of_suites = suite.parts if isinstance(suite, CombinedSuite) else ()
        parts += [judge_turns(*selected_turns(one, own, partial=False), results, run, prefix) for one in of_suites]
        if not of_suites:
            parts.append(judge_turns(suite, own, results, run, prefix))
    return _together(parts, Suite(name=run))


def turns_of_each(judges: Sequence[JudgedBy], turns: Sequence[TurnJson]) -> list[tuple[JudgedBy, list[TurnJson]]]:
    """The turns that each judges: those of its agents, and of conversations that `run` held with several agents those
    of the cases of its suite."""
    of_several = {
        case.id: (case, index)
        for index, by in reversed([*enumerate(judges)])
        for case in (by.suite.cases if by.suite else ())
        if len(case.agents) > 1
    }
    by_agent = {name: index for index, by in enumerate(judges) for name in by.agents}
    found: list[tuple[JudgedBy, list[TurnJson]]] = [(by, []) for by in judges]
    for turn in turns:
        case, index = of_several.get(turn["case_id"], (None, 0))
        if case is None or not case.is_whole_with(turn):
            index = by_agent.get(turn.get("agent_name"), by_agent.get(None, -1))
        if index >= 0:
            found[index][1].append(turn)
    return found


def _in_force(by: JudgedBy, turns: Sequence[TurnJson], others: Collection[str | None] = ()) -> Suite | None:
    """`others`: the agents whose turns other suites judge, so that traffic of cases for these, too, cannot be
    followed."""
    came = {turn["case_id"] for turn in turns}
    whole = {turn["case_id"] for turn in turns if agent_of_conversation(turn) is None}
    followed = {
        case.id
        for case in (by.suite.cases if by.suite else ())
        if case.id in whole or ({*case.agents}.isdisjoint(others) and len(by.agents.intersection(case.agents)) > 1)
    }
    suite = by.plan(followed & came)
    is_judged = by.current or (suite is not None and any(case.id in came for case in suite.cases))
    return suite if is_judged else None


async def run_details(store: Store, judges: Judges, run: RunSummary) -> dict[str, Any]:
    """The run's numbers with `metrics`, `verdict`, `judges` and `judge_usage` of `judged_run`; null all four beyond
    MAX_TURNS."""
    details: dict[str, Any] = {**asdict(run), "metrics": None, "verdict": None, "judges": None, "judge_usage": None}
    if run.turns > MAX_TURNS:
        return details
    conclusion = await judged_run(store, judges, run)
    verdict = conclusion.verdict
    return details | {
        "metrics": [_metric(summary) for summary in verdict.metrics],
        "verdict": {
            "passed": verdict.passed,
            "reason_count": len(verdict.reasons),
            "tolerated_count": len(verdict.tolerated),
            "reasons": [asdict(reason) for reason in verdict.reasons[:MAX_REASONS]],
        },
        "judges": conclusion.report.judges,
        "judge_usage": conclusion.report.usage.to_dict(),
    }


async def run_report(store: Store, judges: Judges, run: RunSummary, *, trace_url: str | None) -> bytes:
    """The HTML report of `judged_run` in UTF-8; `trace_url`: see `Report`. Raises LongRunError, StoreError."""
    result = await judged_run(store, judges, run, texts=True)
    report = replace(result.report, trace_url=trace_url or "")
    return await asyncio.to_thread(lambda: html_report(report).encode("utf-8", "replace"))


def _metric(summary: MetricSummary) -> dict[str, Any]:
    """With the share of results that passed; null where none has a threshold."""
    judged = summary.passed + summary.failed
    return {**asdict(summary), "pass_rate": summary.passed / judged if judged else None}
