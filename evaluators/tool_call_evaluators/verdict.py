"""Decides whether a run passed: fails closed, and names every reason.

Missing data counts like a failure: a planned turn that was not executed, an evaluator that errored, a metric without
results, an empty run. Only reasons that a suite tolerates by name do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from .attempts import Attempts
from .gates import (
    TOLERABLE,
    USER_FAULT,
    USER_NO_END,
    Gate,
    GateCheck,
    Measured,
    Outcome,
    Reason,
    RunGates,
    attempts_in,
    not_executed,
    reason_of,
)
from .model import (
    CALLS_UNSEEN,
    ENDED_AS_EXPECTED,
    OVER_BUDGET,
    UNPROVEN,
    UNREAD_EXPECTATION,
    VACUOUS,
    EvalResult,
    Status,
)
from .texts import counted as number_of


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """The number of results of a metric by status. `measured`: scores and labels; `mean` is None without scores, which
    lie within `scale`."""

    metric: str
    measured: int
    mean: float | None
    passed: int
    failed: int
    skipped: int
    errored: int
    scale: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run passed if there are no `reasons`. `tolerated` holds those that the suite, or a judge budget, tolerates."""

    reasons: tuple[Reason, ...]
    tolerated: tuple[Reason, ...]
    metrics: tuple[MetricSummary, ...]
    gates: tuple[GateCheck, ...] = ()
    """The limits of the suite, those of the run first."""

    @property
    def passed(self) -> bool:
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        listed = {"gates": [check.to_dict() for check in self.gates]}
        return {"passed": self.passed, **asdict(replace(self, gates=())), **listed}


def gate(
    outcomes: Iterable[Outcome],
    *,
    metrics: Iterable[str] = (),
    gates: Mapping[str, Gate] | None = None,
    tolerate: Collection[str] = frozenset(),
    run: RunGates | None = None,
    allow_no_capture: bool = False,
    unread: Iterable[str] = (),
    quarantined: Collection[str] = (),
) -> Verdict:
    """Judge a run.

    What speaks against `quarantined` cases (their ids) is tolerated, and gates do not count their results. Of a case
    with `Outcome.must_pass`, that many attempts must pass: then what speaks against the others is tolerated, apart from
    gates on metrics.

    `metrics` names the configured metrics; `gates` holds their limits, `run` those of the whole run. A metric without a
    gate must pass everywhere. A run fails if tool calls are expected but none was captured, if the calls of a turn are
    unknown to an evaluator that reads them, without any metric, or if no result says anything about the agent
    (`EvalResult.decisive`). `unread` has a sentence for each expectation that no evaluator reads: a reason of the run.
    Results that a judge budget left out are a tolerated reason. `tolerate` lists codes of `TOLERABLE`; with
    `allow_no_capture`, no reason counts that lies only in unknown calls.
    Raises ValueError for other codes.
    """
    if unknown := set(tolerate) - set(TOLERABLE):
        raise ValueError(f"cannot tolerate {min(unknown)}; accepted are {', '.join(TOLERABLE)}")
    gates, run = gates or {}, run or RunGates()
    if allow_no_capture:
        tolerate = {*tolerate, CALLS_UNSEEN, "nothing_captured"}
    outcomes = list(outcomes)
    found: dict[str, list[tuple[Outcome, EvalResult]]] = {name: [] for name in (*metrics, *gates)}
    repeated = attempts_in(outcomes)
    spared = {  # those that did not pass, of cases where enough others did, or in quarantine
        *(name for case in repeated if case.accepted for name, status in case.statuses.items() if status != "passed"),
        *(one.conversation for one in outcomes if one.case_id in quarantined),
    }
    counted = [outcome for outcome in outcomes if outcome.case_id not in quarantined]
    checks = run.checks(counted)
    reasons = [*_always(outcomes, spared), *_reasons_in(checks)]  # first: one of them may explain the others
    places = spared.union(outcome.where for outcome in outcomes if outcome.conversation in spared)
    for outcome in outcomes:
        reasons += _of_turn(outcome)
        for result in outcome.results or ():
            found.setdefault(result.evaluator, []).append((outcome, result))
    for metric, results in found.items():
        reasons += _results_that(Status.ERRORED, metric, results)
        reasons += _unproven(metric, results)
        reasons += _over_budget(metric, results)
        measured = [(outcome, result) for outcome, result in results if result.measured]
        if metric in gates:
            unmeasured = _unmeasured(metric, results, allow_no_capture)
            limits = gates[metric]
            measured = [(outcome, result) for outcome, result in measured if outcome.case_id not in quarantined]
            reached = limits.checks(metric, measured) if measured else limits.unmeasured(metric, unmeasured)
            checks += reached
            reasons += _reasons_in(reached) if measured else [unmeasured]
        elif not measured and not _all_labelled(
            results, CALLS_UNSEEN, UNPROVEN, ENDED_AS_EXPECTED
        ):  # other reasons cover these
            if run.pass_rate != 0 or any(result.status is Status.ERRORED for _, result in results):
                reasons.append(_unmeasured(metric, results))
        elif run.pass_rate is None:
            reasons += _results_that(Status.FAILED, metric, measured)
    if run.pass_rate is None:
        reasons += [_too_few(case) for case in repeated if not case.accepted]
    reasons += [Reason(UNREAD_EXPECTATION, sentence) for sentence in unread]
    if outcomes and not counted:
        reasons.append(Reason("unmeasured", "nothing was measured: every case is in quarantine"))
    if outcomes and not found:
        reasons.append(Reason("unmeasured", "nothing was measured: no evaluator is configured"))

    def tolerated(reason: Reason) -> bool:
        return reason.code in (OVER_BUDGET, *tolerate) or (reason.code in _OF_AN_ATTEMPT and reason.where in places)

    if found and all(map(tolerated, reasons)):
        everything = [item for results in found.values() for item in results]
        if not (allow_no_capture and _all_labelled(everything, CALLS_UNSEEN)):
            reasons += _vacuous(everything)
    return Verdict(
        reasons=tuple(reason for reason in reasons if not tolerated(reason)),
        tolerated=tuple(filter(tolerated, reasons)),
        metrics=tuple(_summary(metric, [result for _, result in results]) for metric, results in found.items()),
        gates=tuple(check.tolerating(tolerate) for check in checks),
    )


_NOTHING_CAPTURED = "tool calls are expected, but none were captured in this run: "
_EVERY_TURN_FAILED = "every turn that expects some failed or was not executed"
_ENABLE_CAPTURE = (
    "if the agent made some, enable the tool-call-capture extension in it, or receive its OpenTelemetry traces with "
    "--otlp (`run`, `serve`); `a2a-eval-proxy doctor URL` says how"
)


def _of_turn(outcome: Outcome) -> Iterator[Reason]:
    """Reasons besides its results."""
    if outcome.results is None:
        yield reason_of("missing_turn", f"{outcome.where}: {not_executed(outcome.no_history)}", outcome)
    if outcome.failure is not None:
        yield reason_of("failed_turn", f"{outcome.where}: {outcome.failure}", outcome)
    if fault := outcome.user_fault:
        code = USER_FAULT if outcome.invalid else USER_NO_END
        yield reason_of(code, f"{outcome.where}: the simulated user: {fault.message}", outcome)


def _reasons_in(checks: Iterable[GateCheck]) -> list[Reason]:
    return [reason for check in checks for reason in check.reasons]


def _results_that(ended: Status, metric: str, results: Measured) -> list[Reason]:
    return [
        reason_of(ended, f"{outcome.where}: {metric} {ended}: {result.reason}", outcome, metric)
        for outcome, result in results
        if result.status is ended
    ]


def _all_labelled(results: Measured, *labels: str) -> bool:
    """Whether each result, of which there are some, has one of the labels."""
    return bool(results) and all(result.label in labels for _, result in results)


def _unproven(metric: str, results: Measured) -> Iterator[Reason]:
    """The reason against a run with results that are unproven, with the names of all forbidden tools."""
    found = [result for _, result in results if result.label == UNPROVEN]
    if found:
        tools = dict.fromkeys(one["name"] for result in found for one in result.details.get(UNPROVEN, ()))
        message = (
            f"{metric} is unproven in {len(found)} of {number_of(len(results), 'result')}: nothing in this run shows "
        )
        message += (
            f"that a call of {' or '.join(tools)} would have been seen; let another case call such a tool, or list "
        )
        yield Reason(UNPROVEN, f"{message}it in the `tools` of the suite", metric)


def _over_budget(metric: str, results: Measured) -> Iterator[Reason]:
    """What a run with results that the judge budget left out shows; where all are, `_unmeasured` counts."""
    left_out = sum(result.label == OVER_BUDGET for _, result in results)
    if left_out:
        of_all = f"{left_out} of {number_of(len(results), 'result')}"
        message = f"{metric}: {of_all} skipped, as the judge budget was spent; `evaluate` scores them"
        yield Reason(OVER_BUDGET, message, metric)


def _vacuous(results: Measured) -> Iterator[Reason]:
    """The reason against a run that nothing else speaks against, if no result says anything about the agent."""
    if not any(result.decisive for _, result in results):
        metrics = dict.fromkeys(result.evaluator for _, result in results if result.measured)
        why = f"no turn made a tool call, so that {', '.join(metrics)} had none to judge" if metrics else "no scores"
        yield Reason(VACUOUS, f"nothing was measured: {why}; expect tool calls, or score the answers")


def _unmeasured(metric: str, results: Measured, allow_no_capture: bool = False) -> Reason:
    errored = [result.reason for _, result in results if result.status is Status.ERRORED]
    skipped = [result.reason for _, result in results if result.status is Status.SKIPPED]
    skipped.sort(key=lambda why: why.startswith("not given: "))  # what turns do not expect says least
    if errored:
        why = f"errored in {len(errored)} of {len(results)} results ({errored[0]})"
        if skipped:
            why += f", skipped in {len(skipped)} ({skipped[0]})"
    else:
        why = f"every result was skipped ({skipped[0]})" if skipped else "no evaluator produced a score"
    code = CALLS_UNSEEN if allow_no_capture and _all_labelled(results, CALLS_UNSEEN) else "unmeasured"
    return Reason(code, f"{metric}: {why}", metric)


_OF_AN_ATTEMPT = frozenset(
    {Status.FAILED, Status.ERRORED, "failed_turn", "missing_turn", "too_few_passed", USER_FAULT, USER_NO_END}
)
"""Codes of reasons that do not count where enough other attempts at the case passed, or the case is in quarantine."""


def _too_few(case: Attempts) -> Reason:
    last = next((name for name, status in reversed([*case.statuses.items()]) if status != "passed"), case.case_id)
    message = f"{last}: {case.passed} of {number_of(case.made, 'attempt')} at the case passed, "
    message += f"and {case.must_pass} must pass"
    if case.excluded:
        message += f"; {case.excluded} of them show nothing about the agent"
    return Reason("too_few_passed", message, where=last, case_id=case.case_id)


def _always(outcomes: Sequence[Outcome], spared: Collection[str]) -> Iterator[Reason]:
    """Reasons that apply to every run."""
    if not outcomes:
        yield Reason("nothing_ran", "the run has no turns")
    expecting = any(outcome.captured is not None for outcome in outcomes)
    if expecting and not any(outcome.captured or outcome.called for outcome in outcomes):
        failed = all(outcome.failure or outcome.results is None for outcome in outcomes if outcome.captured is not None)
        yield Reason("nothing_captured", _NOTHING_CAPTURED + (_EVERY_TURN_FAILED if failed else _ENABLE_CAPTURE))
    # A turn that failed has a reason of its own.
    counts = (outcome for outcome in outcomes if not outcome.failure and outcome.conversation not in spared)
    if unseen := Counter(outcome.unseen for outcome in counts if outcome.unseen):
        message = f"{unseen.total()} of {len(outcomes)} turns and conversations were not scored for tool calls: "
        message += "; ".join(
            f"{why} ({count} times)" if len(unseen) > 1 else why for why, count in unseen.most_common(3)
        )
        yield Reason(CALLS_UNSEEN, message)


def _summary(metric: str, results: Sequence[EvalResult]) -> MetricSummary:
    scores = [result.score for result in results if result.score is not None]
    counts = Counter(result.status for result in results)
    passed, failed, skipped, errored = (
        counts[status] for status in (Status.PASSED, Status.FAILED, Status.SKIPPED, Status.ERRORED)
    )
    measured = sum(result.measured for result in results)
    mean = fmean(scores) if scores else None
    scale = next((result.scale for result in results if result.score is not None), (0.0, 1.0))
    return MetricSummary(metric, measured, mean, passed, failed, skipped, errored, scale)
