"""The end of every run: its stored turns compared with the suite, the verdict and the report; also for the admin API
and the pages, and counted while it lasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from tool_call_evaluators.gates import Reason
from tool_call_evaluators.judged.base import judge_with
from tool_call_evaluators.judged.unique_errors import errors_of_run
from tool_call_evaluators.outcomes.comparison import Comparison, FailOn
from tool_call_evaluators.outcomes.conversations import (
    ConversationResults,
    agent_of_conversation,
    failures,
    follow,
    run_verdict,
    verdict_of_suites,
)
from tool_call_evaluators.report import html_report
from tool_call_evaluators.report.compared import change_line
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.report.shorten import shortened_turn
from tool_call_evaluators.simulation.record import SIMULATED_USER
from tool_call_evaluators.suite import Suite, SuiteError
from tool_call_evaluators.suite.model import CombinedSuite, combined
from tool_call_evaluators.suite.parsing import read_kept_suite
from tool_call_evaluators.suite.writing import kept_suite
from tool_call_evaluators.texts import counted
from tool_call_evaluators.verdict import Verdict
from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..privacy.policy import NO_PRIVACY, Privacy
from ..scoring.scorer import WITHOUT_SUITE, Scorer, TurnJson, in_its_case
from ..store import (
    RunSummary,
    ScoredConversation,
    Store,
    StoreError,
    StoreHealth,
    TurnQuery,
    every_turn,
)
from ..store.base import KeptVerdict, RunStatus
from ..telemetry.turn_listener import ScoredTurn, TurnListener
from .compare import compare_stored
from .run_plan import selected_turns
from .stored_turns import conversation_results, without_texts

logger = logging.getLogger(__name__)


WORSE = "worse_than_baseline"
"""The code of the reason against a run that `--fail-on` does not accept, compared with its baseline."""


@dataclass(frozen=True, slots=True)
class RunResult:
    verdict: Verdict
    report: Report

    @property
    def unreachable(self) -> str:
        """How many conversations broke off since the agent could not be reached, or the history not be made, and a
        reason; empty: none did."""
        broke_off = [*filter(None, (item.unreachable or item.no_history for item in self.report.conversations))]
        return f"{counted(len(broke_off), 'conversation')} broke off: {broke_off[0]}" if broke_off else ""

    def compared(self, baseline: Comparison, fail_on: Collection[FailOn]) -> RunResult:
        """This result with the comparison, which is a reason against the run where it `fails_on` what that shows."""
        report = replace(self.report, baseline=baseline)
        if not baseline.fails_on(fail_on):
            return RunResult(self.verdict, report)
        reason = Reason(WORSE, f"compared with {change_line(baseline)}")
        verdict = replace(self.verdict, reasons=(*self.verdict.reasons, reason))
        return RunResult(verdict, replace(report, verdict=verdict.to_dict()))


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides, beside its suites, whether a run passes: whether tool calls may be unknown where no source could
    show any, and the earlier run (`baseline`) than which it must not be worse (`fail_on`)."""

    allow_no_capture: bool = False
    baseline: str | None = None
    fail_on: Collection[FailOn] = ()


NO_TERMS = Terms()


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
    terms: Terms = NO_TERMS,
) -> RunResult:
    """Judge the stored turns of `run` (None: of all runs) by the suites, and keep the verdict with it. Everything must
    be scored by now.

    `moved` has the cases of turns, by turn id, that differ from the stored ones. Only results of the suite's
    evaluators count; with `partial`, and with several suites, only turns of their cases. All turns are in memory
    together, with texts shortened for the report; without `texts`, with what the verdict needs. `privacy` redacts turns
    that were stored under other rules. The first suite's judge, if there is one, merges distinct errors that mean the
    same, unless content must not be kept.
    """

    def in_force(result: Mapping[str, Any]) -> bool:
        metrics = (item.metric for item in scorer.evaluators(result["case_id"]).conversation)
        return result["evaluator"] in (SIMULATED_USER, *metrics)

    turns = []
    async for stored in every_turn(store, TurnQuery(run=run)):
        turn = scorer.in_force(in_its_case(privacy.stored_turn(stored), moved or {}))
        turns.append(shortened_turn(turn) if texts else without_texts(turn))
    plan = Plan.of_suites(suites, privacy, partial=partial)
    found = await conversation_results(store, run)
    results = {key: list(filter(in_force, own)) for key, own in found.items()}
    result = judge(plan, turns, results, run, allow_no_capture=terms.allow_no_capture)
    left = len(turns) - len(result.report.turns)
    if left and len(suites) > 1 and not partial:
        logger.warning("not counted, as they belong to no case of the suites: %s", counted(left, "turn"))
    if terms.baseline is not None and run is not None:
        cases = {item.case_id for item in result.report.conversations if item.case_id} if partial else None
        result = result.compared(await compare_stored(store, terms.baseline, run, cases), terms.fail_on)
    if run is not None:
        await store.keep_verdict(run, _kept(plan, result.report))
    cache = privacy.judge_cache(store.judge_cache)
    judge_model = None if cache is None else judge_with(suites[0].judge, cache)
    errors, spent = await errors_of_run(failures(result.report.conversations), judge_model)
    merged = replace(result.report, merged_errors=[error.to_dict() for error in errors], merging=spent)
    return RunResult(result.verdict, merged)


async def begin(store: Store, suites: Sequence[Suite], run: str, privacy: Privacy, *, partial: bool) -> None:
    """Keep with a run what is going to judge it: until then it is not complete."""
    plan = Plan.of_suites(suites, privacy, partial=partial)
    await store.keep_verdict(run, KeptVerdict(plan.name, plan.to_dict(), "incomplete", None))


def judge(
    plan: Plan,
    turns: Sequence[TurnJson],
    results: ConversationResults,
    run: str | None,
    *,
    allow_no_capture: bool = False,
) -> RunResult:
    """As `judge_turns`; several suites judge the turns of their own cases, and all must pass.

    With `allow_no_capture`, reasons that lie only in tool calls that no source could show do not count, unless the
    calls of any turn are unknown for another reason, such as an unreadable response.
    """
    parts = plan.matched(turns, results, run)
    allowed = allow_no_capture and all(part.could_be_allowed for part in parts)
    judged = [_judged_alone(part, allow_no_capture=allowed) for part in parts]
    if len(judged) == 1:
        return judged[0]
    report = _of_parts(plan, [part.report for part in judged], {})
    of_suites = [(part.report.title, part.verdict) for part in judged if part.report.suite]
    verdict = verdict_of_suites(plan.whole, report.conversations, of_suites)
    return RunResult(verdict, replace(report, verdict=verdict.to_dict()))


def judge_turns(
    suite: Suite | None, turns: Sequence[TurnJson], results: ConversationResults, run: str | None
) -> RunResult:
    """Judge these turns and the `results` of their conversations by the suite; see `load_and_judge_run`. Without a
    suite the report has no verdict, but what failed."""
    return _judged_alone(_matched(suite, turns, results, run))


def _matched(
    suite: Suite | None, turns: Sequence[TurnJson], results: ConversationResults, run: str | None, prefix: str = ""
) -> Report:
    """A report without verdict. `prefix`: what the names of conversations begin with."""
    conversations = [replace(one, label=prefix + one.label, prefix=prefix) for one in follow(turns, suite, results)]
    return Report(run if run is not None else _name(turns), {}, conversations, suite)


def _judged_alone(report: Report, *, allow_no_capture: bool = False) -> RunResult:
    verdict = run_verdict(report.suite or WITHOUT_SUITE, report.conversations, allow_no_capture=allow_no_capture)
    return RunResult(verdict, _unjudged(report) if report.suite is None else replace(report, verdict=verdict.to_dict()))


def _unjudged(report: Report) -> Report:
    """The report with what failed, in place of a verdict."""
    found = run_verdict(report.suite or WITHOUT_SUITE, report.conversations).to_dict()
    reasons = [reason for reason in found["reasons"] if reason["where"] and reason["code"] != "missing_turn"]
    incomplete = {"incomplete": True} if report.suite else {}
    return replace(report, verdict={**found, "passed": None, "reasons": reasons, "gates": [], **incomplete})


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

    def __str__(self) -> str:
        """`110 passed, 10 failed`, and what is wrong with the store, if anything."""
        problem = self.store.problem
        waiting = f", waiting for the store: {problem}" if problem else ""
        return f"{self.passed_turns:,} passed, {self.failed_turns:,} failed{waiting}"

    @property
    def line(self) -> str:
        """`120 of 1,000 turns, 110 passed, 10 failed`."""
        return f"{self.done:,} of {counted(self.planned, 'turn')}, {self}"

    @property
    def stops(self) -> bool:
        return self.fail_fast and self.failed

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        for _, results, _ in (one for one in scored if not one[0].given):
            failed = _any_failed(results)
            self.failed |= failed
            self.failed_turns += failed
            self.passed_turns += not failed

    def conversation_scored(self, scored: ScoredConversation) -> None:
        self.failed |= _any_failed(scored.evaluations)


def _any_failed(results: Sequence[Mapping[str, Any]]) -> bool:
    return any(result["status"] in ("failed", "errored") for result in results)


MAX_TURNS = 10_000  # the pages of a longer run are numbers only: they need all turns in memory
MAX_REASONS = 100
_PAGE = 200


class LongRunError(Exception):
    """The run has more turns than are shown, or compared, in memory together; the message names the command for it."""


class JudgedBy(NamedTuple):
    """What judges a run, or the turns of some of several agents in it."""

    suite: Suite | None = None
    suite_file: str | None = None
    agents: frozenset[str | None] = frozenset({None})
    """Whose turns it judges, where there is more than one such judge; cases for other agents do not count. None: of
    any other agent."""
    privacy: Privacy = NO_PRIVACY
    """The rules under which a run keeps the suite."""

    @property
    def suites(self) -> Sequence[Suite]:
        if self.suite is None:
            return []
        return self.suite.parts if isinstance(self.suite, CombinedSuite) else [self.suite]

    def in_force(self, turns: Sequence[TurnJson], others: Collection[str | None] = ()) -> Sequence[Suite | None]:
        """The suites, without cases for other agents, and without those for several that did not come. `others`: the
        agents whose turns other suites judge, so that traffic of cases for these, too, cannot be followed."""
        names = {name for name in self.agents if name is not None}
        if self.suite is None or not names:
            return self.suites or [None]
        came = {turn["case_id"] for turn in turns}
        whole = {turn["case_id"] for turn in turns if agent_of_conversation(turn) is None}
        followed = {
            case.id
            for case in self.suite.cases
            if case.id in whole
            or ({*case.agents}.isdisjoint(others) and len(self.agents.intersection(case.agents)) > 1)
        }
        return [suite.of_agents(names, followed & came) for suite in self.suites]


@dataclass(frozen=True, slots=True)
class Plan:
    """The suites that judge a run. With `partial`, they have a part of their cases, and only these count."""

    judges: Sequence[JudgedBy]
    partial: bool = False
    is_whole: bool = True
    """Whether all evaluators are known here: else this process cannot judge by it."""

    @classmethod
    def of_suites(cls, suites: Sequence[Suite], privacy: Privacy, *, partial: bool) -> Plan:
        return cls([JudgedBy(combined(suites), privacy=privacy)], partial)

    @property
    def name(self) -> str:
        """Of the suite, or of all of them."""
        return ", ".join(dict.fromkeys(by.suite.name for by in self.judges if by.suite))

    @property
    def whole(self) -> Suite:
        """All suites as one, where there are several."""
        return (self.judges[0].suite if len(self.judges) == 1 else None) or Suite(name=self.name)

    def suite_with(self, cases: Collection[str | None]) -> Suite | None:
        """The first suite that has one of these cases, with these alone; None: there is none."""
        for suite in (suite for by in self.judges for suite in by.suites):
            if own := tuple(case for case in suite.cases if case.id in cases):
                return replace(suite, cases=own)
        return None

    def to_dict(self) -> dict[str, Any]:
        return {
            "partial": self.partial,
            "judges": [
                {
                    "suites": [kept_suite(by.privacy.kept_suite(suite)) for suite in by.suites],
                    "agents": sorted(by.agents, key=str),
                }
                for by in self.judges
            ],
        }

    @classmethod
    def from_dict(cls, plan: Mapping[str, Any]) -> Plan:
        """Raises StoreError."""
        judges, is_whole = [], True
        for by in plan["judges"]:
            try:
                read = [read_kept_suite(suite) for suite in by["suites"]]
            except SuiteError as error:
                raise StoreError(
                    f"a suite that a run keeps cannot be read here ({error}); judge the run again"
                ) from None
            is_whole = is_whole and all(whole for _, whole in read)
            suite = combined([suite for suite, _ in read]) if read else None
            judges.append(JudgedBy(suite, None, frozenset(by["agents"])))
        return cls(judges, plan["partial"], is_whole)

    def matched(self, turns: Sequence[TurnJson], results: ConversationResults, run: str | None) -> list[Report]:
        """A report of each suite, without verdict: the conversations that it judges."""
        several, parts = len(self.judges) > 1, []
        for by, own in turns_of_each(self.judges, turns) if several else [(self.judges[0], turns)]:
            prefix = f"{', '.join(sorted(filter(None, by.agents))) or 'without agent'}: " if several else ""
            others = {name for other in self.judges if other is not by for name in other.agents}
            suites = by.in_force(own, others)
            for suite in suites:
                if suite is not None and (self.partial or len(suites) > 1):
                    parts.append(_matched(*selected_turns(suite, own, partial=self.partial), results, run, prefix))
                else:
                    parts.append(_matched(suite, own, results, run, prefix))
        return parts


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


NO_PLAN = Plan([JudgedBy()])


def _kept(plan: Plan, report: Report, of: str = "") -> KeptVerdict:
    """What a run keeps of its report."""
    verdict = {"whole": report.verdict, "parts": [part.verdict for part in report.parts]}
    return KeptVerdict(plan.name, plan.to_dict(), _status(report), verdict, of, report.passed_text)


def _status(report: Report) -> RunStatus:
    return "incomplete" if report.outcome == "unjudged" else report.outcome


async def run_report(store: Store, run: RunSummary, *, texts: bool = False) -> Report:
    """The stored turns of a run with the verdict that it keeps; `texts`: with shortened texts. Without a suite there is
    none (`Report.outcome`).

    The verdict on live traffic is brought up to date first, by the suites that score it. Raises LongRunError,
    StoreError.
    """
    if run.turns > MAX_TURNS:
        raise LongRunError(
            f"run {run.name!r} has more than {MAX_TURNS:,} turns; use `a2a-eval-proxy evaluate --report DIR`"
        )
    shortened = shortened_turn if texts else without_texts
    kept = await store.kept_verdict(run.name)
    turns = [shortened(turn) async for turn in every_turn(store, TurnQuery(run=run.name), _PAGE)]
    results = await conversation_results(store, run.name)
    if kept is None:
        return await asyncio.to_thread(lambda: judge(NO_PLAN, turns, results, run.name).report)
    plan = Plan.from_dict(kept.plan)
    if kept.of in ("", run.numbers) or not plan.is_whole:
        return await asyncio.to_thread(_report, plan, kept.verdict, turns, results, run.name)
    report = await asyncio.to_thread(_judged_so_far, plan, turns, results, run.name)
    await store.judged(run.name, _kept(plan, report, of=run.numbers))
    return report


def _report(
    plan: Plan, kept: Mapping[str, Any] | None, turns: Sequence[TurnJson], results: ConversationResults, run: str
) -> Report:
    """The report with the verdict that the run keeps. Results of evaluators that it does not know do not show."""
    if kept is None:
        parts = [_unjudged(part) for part in plan.matched(turns, results, run)]
        return parts[0] if len(parts) == 1 else _unjudged(_of_parts(plan, parts, {}))
    whole = kept["whole"]
    known = {TURN_SUCCEEDED, SIMULATED_USER, *(metric["metric"] for metric in whole["metrics"])}
    own = {key: [one for one in found if one["evaluator"] in known] for key, found in results.items()}
    turns = [
        {**turn, "evaluations": [one for one in turn["evaluations"] if one["evaluator"] in known]} for turn in turns
    ]
    parts = plan.matched(turns, own, run)
    if len(parts) == 1:
        return replace(parts[0], verdict=whole)
    return _of_parts(
        plan, [replace(part, verdict=said) for part, said in zip(parts, kept["parts"], strict=True)], whole
    )


def _of_parts(plan: Plan, parts: Sequence[Report], verdict: Mapping[str, Any]) -> Report:
    conversations = [item for part in parts for item in part.conversations]
    return Report(parts[0].run, verdict, conversations, plan.whole, parts=parts)


def _judged_so_far(plan: Plan, turns: Sequence[TurnJson], results: ConversationResults, run: str) -> Report:
    """The report of live traffic: while nothing but what did not come yet speaks against the run, it is incomplete."""
    report = judge(plan, turns, results, run).report
    missing = any(turn.turn is None for item in report.conversations for turn in item.turns)
    if report.passed or not missing:
        return report
    executed = [
        replace(item, turns=tuple(turn for turn in item.turns if turn.turn is not None))
        for item in report.conversations
        if item.executed or item.invalid
    ]
    if executed and not run_verdict(report.suite or WITHOUT_SUITE, executed).passed:
        return report
    return replace(report, verdict={**report.verdict, "incomplete": True})


async def with_verdict(store: Store, run: RunSummary) -> RunSummary:
    """The run, with the verdict on all turns that are stored by now; a longer one than MAX_TURNS as it is."""
    if run.verdict is None or run.verdict.status != "pending" or run.turns > MAX_TURNS:
        return run
    return judged_summary(run, await run_report(store, run))


def judged_summary(run: RunSummary, report: Report) -> RunSummary:
    """The run with the verdict of its report."""
    said = run.verdict and replace(run.verdict, status=_status(report), conversations=report.passed_text)
    return replace(run, verdict=said)


async def run_details(store: Store, run: RunSummary) -> dict[str, Any]:
    """The run's numbers with `metrics`, `verdict`, `judges` and `judge_usage`; the last two are null, and so are
    `metrics` without a verdict, beyond MAX_TURNS."""
    details: dict[str, Any] = {**run_json(run), "metrics": None, "judges": None, "judge_usage": None}
    said: Mapping[str, Any] | None = None
    if run.turns <= MAX_TURNS:
        report = await run_report(store, run)
        said = report.verdict
        details |= {"judges": report.judges, "judge_usage": report.usage.to_dict()}
        run = judged_summary(run, report)
    elif (kept := await store.kept_verdict(run.name)) is not None and kept.verdict is not None:
        said = kept.verdict["whole"]
    if said is None:
        return details
    details["metrics"] = [_metric(summary) for summary in said["metrics"]]
    if run.verdict is not None:
        details["verdict"] = {
            **asdict(run.verdict),
            "passed": bool(said["passed"]),
            "reason_count": len(said["reasons"]),
            "tolerated_count": len(said["tolerated"]),
            "reasons": said["reasons"][:MAX_REASONS],
            "gates": said["gates"],
        }
    return details


def run_json(run: RunSummary) -> dict[str, Any]:
    """As in /api/runs."""
    verdict = run.verdict and {**asdict(run.verdict), "passed": run.verdict.passed}
    return {**asdict(run), "verdict": verdict}


async def run_page(store: Store, run: RunSummary, *, trace_url: str | None) -> bytes:
    """The HTML report of `run_report` in UTF-8; `trace_url`: see `Report`. Raises LongRunError, StoreError."""
    report = replace(await run_report(store, run, texts=True), trace_url=trace_url or "")
    return await asyncio.to_thread(lambda: html_report(report).encode("utf-8", "replace"))


def _metric(summary: Mapping[str, Any]) -> dict[str, Any]:
    """With the share of results that passed; null where none has a threshold."""
    judged = summary["passed"] + summary["failed"]
    return {**summary, "pass_rate": summary["passed"] / judged if judged else None}
