"""Whether a run passed: fails closed, and names every reason.

What did not run counts against the run like what failed: a planned turn that never came, an evaluator that
errored, a metric that nobody measured, a run with nothing in it. Only what is tolerated by name does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from a2a_tool_capture.models import Severity

from .model import CALLS_UNSEEN, EvalResult, Status

TOLERABLE = ("missing_turn", "failed_turn", "errored", "unmeasured", "nothing_captured", CALLS_UNSEEN)
"""The reasons a suite may tolerate."""

RUN_GATES = ("findings", "captured", "pass_rate")
"""Names in a suite's `gates` that are about the run and not about a metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What one metric must reach, on its own scale. It takes the place of "every result must pass"."""

    mean: float | None = None
    """The least mean over the run."""
    conversation_mean: float | None = None
    """The least mean within every single conversation."""
    pass_rate: float | None = None
    """The least share of results that pass their evaluator's threshold, 0 to 1."""
    forbid: tuple[str, ...] = ()
    """Labels that no result may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGates:
    """What the run as a whole must reach."""

    findings: Mapping[Severity, int] = field(default_factory=dict)
    """The most findings of a severity that the turns may have together."""
    captured: float | None = None
    """The least share, 0 to 1, of the turns, and of the conversations as wholes, that expect tool calls in which any
    was captured."""
    pass_rate: float | None = None
    """The least share, 0 to 1, of conversations in which every result passed; takes the place of "every result
    must pass"."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one planned turn, or of one conversation as a whole.

    `where` names it for people; outcomes with an equal `conversation` belong together; `results` is None where
    no turn came. `case_id` and `turn_id` are handed on to the reasons. `failure` says how the turn itself broke
    off (a failed task, an unreachable agent), None where it did not. `captured` is None where no tool call was
    expected, else whether any was captured; `called` is whether any was captured, expected or not. `unseen` says why
    evaluators of calls skipped the turn, where its calls could not be seen.
    """

    where: str
    conversation: str
    results: Sequence[EvalResult] | None
    case_id: str | None = None
    turn_id: str | None = None
    failure: str | None = None
    captured: bool | None = None
    findings: Sequence[Severity] = ()
    called: bool = False
    unseen: str | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run did not pass: a stable `code`, a sentence, and the metric and place it is about, if any."""

    code: str
    message: str
    metric: str | None = None
    where: str | None = None
    case_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """How often a metric was measured and how that went. `mean` is None where it never was."""

    metric: str
    measured: int
    mean: float | None
    passed: int
    failed: int
    skipped: int
    errored: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Passed exactly where there are no `reasons`. `tolerated` holds those the suite chose to live with."""

    reasons: tuple[Reason, ...]
    tolerated: tuple[Reason, ...]
    metrics: tuple[MetricSummary, ...]

    @property
    def passed(self) -> bool:
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        return {"passed": self.passed, **asdict(self)}


def gate(
    outcomes: Iterable[Outcome],
    *,
    metrics: Iterable[str] = (),
    gates: Mapping[str, Gate] | None = None,
    tolerate: Collection[str] = frozenset(),
    run: RunGates | None = None,
) -> Verdict:
    """Judge a run.

    `metrics` names what was to be measured; `gates` holds what metrics must reach, `run` what the whole run must.
    A metric without a gate must pass everywhere it was measured. A run in which tool calls are expected and none
    was ever captured does not pass, nor does one with turns whose calls could not be seen by evaluators that look at
    them, nor one for which no metric was asked for. `tolerate` lists codes of
    `TOLERABLE`; raises ValueError for another.
    """
    if unknown := set(tolerate) - set(TOLERABLE):
        raise ValueError(f"cannot tolerate {min(unknown)}; accepted are {', '.join(TOLERABLE)}")
    gates, run = gates or {}, run or RunGates()
    outcomes = list(outcomes)
    found: dict[str, list[tuple[Outcome, EvalResult]]] = {name: [] for name in (*metrics, *gates)}
    reasons = [] if outcomes else [Reason("nothing_ran", "the run has no turns")]
    reasons += _run_reasons(outcomes, run)  # first: they are few, and one of them may explain all the others
    for outcome in outcomes:
        if outcome.results is None:
            reasons.append(_reason("missing_turn", f"{outcome.where}: no turn came", outcome))
        if outcome.failure is not None:
            reasons.append(_reason("failed_turn", f"{outcome.where}: {outcome.failure}", outcome))
        for result in outcome.results or ():
            found.setdefault(result.evaluator, []).append((outcome, result))
    for metric, results in found.items():
        reasons += _errors(metric, results)
        scored = [(outcome, result) for outcome, result in results if result.score is not None]
        if not scored:
            if metric in gates or not _all_unseen(results):  # of which one reason tells that is about the run
                reasons.append(_unmeasured(metric, results))
        elif metric in gates:
            reasons += _gate_reasons(metric, gates[metric], scored)
        elif run.pass_rate is None:
            reasons += _failures(metric, scored)
    if outcomes and not found:
        reasons.append(Reason("unmeasured", "nothing was measured: no evaluator was asked for"))
    return Verdict(
        reasons=tuple(reason for reason in reasons if reason.code not in tolerate),
        tolerated=tuple(reason for reason in reasons if reason.code in tolerate),
        metrics=tuple(_summary(metric, [result for _, result in results]) for metric, results in found.items()),
    )


_NOTHING_CAPTURED = (
    "tool calls are expected, and not one was captured in the whole run: the agent has to declare the extension "
    "tool-call-capture (`a2a-eval-proxy check URL` tells whether it does it right), or to send its traces to "
    "`a2a-eval-proxy serve`"
)

_Found = Sequence[tuple[Outcome, EvalResult]]


def _reason(code: str, message: str, outcome: Outcome, metric: str | None = None) -> Reason:
    return Reason(code, message, metric, outcome.where, outcome.case_id, outcome.turn_id)


def _errors(metric: str, results: _Found) -> list[Reason]:
    return [
        _reason("errored", f"{outcome.where}: {metric} errored: {result.reason}", outcome, metric)
        for outcome, result in results
        if result.status is Status.ERRORED
    ]


def _all_unseen(results: _Found) -> bool:
    return bool(results) and all(result.label == CALLS_UNSEEN for _, result in results)


def _unmeasured(metric: str, results: _Found) -> Reason:
    errored = [result.reason for _, result in results if result.status is Status.ERRORED]
    skipped = [result.reason for _, result in results if result.status is Status.SKIPPED]
    if errored:
        why = f"errored in {len(errored)} of {len(results)} results ({errored[0]})"
        if skipped:
            why += f", skipped in {len(skipped)} ({skipped[0]})"
    else:
        why = f"skipped everywhere ({skipped[0]})" if skipped else "no evaluator produced a score"
    return Reason("unmeasured", f"{metric}: {why}", metric)


def _failures(metric: str, scored: _Found) -> list[Reason]:
    return [
        _reason("failed", f"{outcome.where}: {metric} failed: {result.reason}", outcome, metric)
        for outcome, result in scored
        if result.status is Status.FAILED
    ]


def _gate_reasons(metric: str, gate: Gate, scored: _Found) -> list[Reason]:
    reasons = []
    if gate.mean is not None and (mean := _mean(scored)) < gate.mean:
        reasons.append(Reason("below_mean", f"{metric}: mean {mean:g} is below {gate.mean:g}", metric))
    if gate.conversation_mean is not None:
        by_conversation: dict[str, list[tuple[Outcome, EvalResult]]] = {}
        for outcome, result in scored:
            by_conversation.setdefault(outcome.conversation, []).append((outcome, result))
        for conversation, results in by_conversation.items():
            if (mean := _mean(results)) < gate.conversation_mean:
                message = f"{conversation}: {metric}: mean {mean:g} is below {gate.conversation_mean:g}"
                case_id = results[0][0].case_id
                reasons.append(Reason("below_conversation_mean", message, metric, conversation, case_id))
    if gate.pass_rate is not None:
        verdicts = [result.passed for _, result in scored if result.passed is not None]
        if not verdicts:
            message = f"{metric}: has a pass rate to reach, but its evaluator has no threshold"
            reasons.append(Reason("unmeasured", message, metric))
        elif (rate := sum(verdicts) / len(verdicts)) < gate.pass_rate:
            message = f"{metric}: pass rate {rate:g} is below {gate.pass_rate:g}"
            reasons.append(Reason("below_pass_rate", message, metric))
    for outcome, result in scored:
        if result.label in gate.forbid:
            message = f"{outcome.where}: {metric} is {result.label!r}: {result.reason}"
            reasons.append(_reason("forbidden_label", message, outcome, metric))
    return reasons


def _run_reasons(outcomes: Sequence[Outcome], run: RunGates) -> list[Reason]:
    reasons = []
    found = Counter(severity for outcome in outcomes for severity in outcome.findings)
    for severity, most in run.findings.items():
        if found[severity] > most:
            message = f"{found[severity]} findings of severity {severity}, at most {most} are allowed"
            reasons.append(Reason("too_many_findings", message))
    expecting = [outcome.captured for outcome in outcomes if outcome.captured is not None]
    if expecting and not any(outcome.captured or outcome.called for outcome in outcomes):
        reasons.append(Reason("nothing_captured", _NOTHING_CAPTURED))
    # A turn that failed has a reason of its own.
    if unseen := Counter(outcome.unseen for outcome in outcomes if outcome.unseen and not outcome.failure):
        message = f"{unseen.total()} of {len(outcomes)} turns and conversations were not scored for tool calls: "
        message += "; ".join(
            f"{why} ({count} times)" if len(unseen) > 1 else why for why, count in unseen.most_common(3)
        )
        reasons.append(Reason(CALLS_UNSEEN, message))
    if run.captured is not None and not expecting:
        reasons.append(Reason("unmeasured", "captured: has a share to reach, but no tool call is expected"))
    elif run.captured is not None and (share := sum(expecting) / len(expecting)) < run.captured:
        expected = "of the turns and conversations that expect some"
        message = f"tool calls were captured in {share:g} {expected}, below {run.captured:g}"
        reasons.append(Reason("below_captured", message))
    if run.pass_rate is not None and outcomes:
        passed: dict[str, bool] = {}
        for outcome in outcomes:
            passed[outcome.conversation] = passed.get(outcome.conversation, True) and _all_passed(outcome)
        if (rate := sum(passed.values()) / len(passed)) < run.pass_rate:
            message = f"pass rate of conversations {rate:g} is below {run.pass_rate:g}"
            reasons.append(Reason("below_pass_rate", message))
    return reasons


def _all_passed(outcome: Outcome) -> bool:
    """Nothing failed, errored or stayed away."""
    if outcome.results is None or outcome.failure is not None:
        return False
    bad = (Status.FAILED, Status.ERRORED)
    return not any(result.status in bad for result in outcome.results)


def _mean(scored: _Found) -> float:
    return fmean(result.score for _, result in scored if result.score is not None)


def _summary(metric: str, results: Sequence[EvalResult]) -> MetricSummary:
    scores = [result.score for result in results if result.score is not None]
    counts = {status: sum(result.status is status for result in results) for status in Status}
    return MetricSummary(
        metric,
        measured=len(scores),
        mean=fmean(scores) if scores else None,
        passed=counts[Status.PASSED],
        failed=counts[Status.FAILED],
        skipped=counts[Status.SKIPPED],
        errored=counts[Status.ERRORED],
    )
