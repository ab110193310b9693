"""What the metrics of a run, and the run as a whole, must reach; and the outcomes and reasons that a verdict reads and
gives.

A gate is one field of `Gate` or `RunGates`: the field's metadata has its rule, its label in reports and its check;
key, JSON Schema and text of a suite follow from the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import partial
from statistics import fmean
from typing import Annotated, Any, TypeAlias

from a2a_tool_capture.models import Finding, Severity

from .attempts import Attempts, AttemptStatus
from .evaluator import EvaluatorBase
from .grouping import grouped
from .model import CALLS_UNSEEN, OVER_BUDGET, UNPROVEN, UNREAD_EXPECTATION, VACUOUS, EvalResult, Status
from .suite_fields import (
    FieldError,
    Number,
    Schema,
    Share,
    SuiteFields,
    Texts,
    Value,
    at,
    checked_object,
    choice,
    whole_number,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one planned turn, or of one conversation as a whole.

    `where` is its name in reports; outcomes with an equal `conversation` belong together; `results` is None if the
    turn was not executed. Reasons copy `case_id` and `turn_id`. `failure` describes how the turn itself failed (a
    failed task, an unreachable agent), else None. `captured`: whether any tool call was captured; None if none was
    expected. `called`: whether any was captured, expected or not. `unseen`: why evaluators of calls skipped the turn
    because its calls are unknown, else None. `user_fault` is a fault of the simulated user; `invalid`: it cut the
    conversation short. `no_history`: that its history could not be made, so that the turn was not executed. `attempt`
    says what the conversation shows as an attempt at its case, of which `must_pass` must pass (None: all).
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
    user_fault: Finding | None = None
    invalid: bool = False
    no_history: str | None = None
    attempt: AttemptStatus | None = None
    must_pass: int | None = None


def attempts_in(outcomes: Iterable[Outcome]) -> list[Attempts]:
    """Those at each case of which not all attempts must pass; `planned` is the number made."""
    found: dict[tuple[str, int], dict[str, AttemptStatus]] = {}
    for outcome in outcomes:
        if outcome.must_pass is not None and outcome.attempt is not None and outcome.case_id is not None:
            found.setdefault((outcome.case_id, outcome.must_pass), {})[outcome.conversation] = outcome.attempt
    return [Attempts(case_id, made, len(made), must_pass) for (case_id, must_pass), made in found.items()]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run did not pass: a stable `code`, a sentence, and the metric and place it concerns, if any."""

    code: str
    message: str
    metric: str | None = None
    where: str | None = None
    case_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class GateCheck:
    """A limit and the value that the run reached.

    `gate` is the limit's key in suites, and `metric` is None for a limit of the run. `label` and `text` write the limit
    and the actual value for people. `actual` is None if nothing was measured. `passed` is None if the limit is not met
    only for `reasons` that the suite tolerates.
    """

    metric: str | None
    gate: str
    label: str
    limit: Any
    actual: float | None
    text: str
    passed: bool | None
    reasons: tuple[Reason, ...]

    def tolerating(self, tolerate: Collection[str]) -> GateCheck:
        """This check in a suite that tolerates the codes `tolerate`."""
        tolerated = bool(self.reasons) and all(reason.code in tolerate for reason in self.reasons)
        return replace(self, passed=None) if tolerated else self

    def to_dict(self) -> dict[str, Any]:
        """JSON form without the reasons, which the verdict lists."""
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "reasons"}


Measured = Sequence[tuple[Outcome, EvalResult]]
"""The results of a metric that have a score or a label, each with its outcome."""


def not_executed(no_history: str | None) -> str:
    """That a planned turn has not come, and why."""
    return f"not executed ({no_history or 'no matching turn'})"


def reason_of(code: str, message: str, outcome: Outcome, metric: str | None = None) -> Reason:
    return Reason(code, message, metric, outcome.where, outcome.case_id, outcome.turn_id)


USER_FAULT, USER_NO_END = USER_REASONS = ("user_fault", "user_no_end")
"""Reasons that lie with the simulated user, never with the agent."""
TOLERABLE = (
    "missing_turn", "failed_turn", "errored", "unmeasured", VACUOUS, "nothing_captured", CALLS_UNSEEN,
    UNPROVEN, UNREAD_EXPECTATION, *USER_REASONS
)  # fmt: skip
"""The reasons a suite may tolerate."""


def _mean(measured: Measured) -> float | None:
    """None if there are labels only."""
    scores = [result.score for _, result in measured if result.score is not None]
    return fmean(scores) if scores else None


def _without_scores(gate: str, metric: str) -> Reason:
    return Reason("unmeasured", f"{metric}: the gate {gate} needs scores, but its results are labels only", metric)


# ── gates on a metric: each is a rule and a field of `Gate` ─────────────────────────────────────────────────────


Reached: TypeAlias = tuple[float | None, Iterable[Reason]]
"""The value that a run reached, None if nothing was measured, and why a limit is not met."""


def _rule(
    reached: Callable[..., Reached],
    label: Callable[[Any], str] | None = None,
    *,
    parts: Callable[[Any], Iterable[Any]] = lambda limit: [limit],
    fits: Callable[[EvaluatorBase, Any], None] | None = None,
) -> dict[str, Any]:
    """The metadata of a gate's field.

    `reached` compares a limit with results, `label` describes the limit in reports (default: name ≥ limit), `parts`
    splits it into limits that are reported one by one, and `fits` raises FieldError for a limit that results of an
    evaluator cannot decide.
    """
    return {"reached": reached, "label": label, "parts": parts, "fits": fits}


def _value_text(value: float) -> str:
    """Counts as they are, other numbers with two decimals, or more where they have them."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.2f}" if round(value, 2) == value else f"{value:g}"


def _actual_text(actual: float | None, limit: Any) -> str:
    if actual is None:
        return "not measured"
    rounded = actual if isinstance(actual, int) else round(actual, 2)
    met_when_rounded = isinstance(limit, int | float) and (rounded < limit) != (actual < limit)
    return _value_text(actual if met_when_rounded else rounded)


def _below(actual: float, limit: float) -> str:
    return f"{_actual_text(actual, limit)} is below {_value_text(limit)}"


def _checks(gate: Gate | RunGates, metric: str | None, *given: Any) -> Iterator[GateCheck]:
    """The limits of `gate`, each compared with what its rule makes of `given`."""
    for item, whole in _limits(gate):
        rule = item.metadata
        for limit in rule["parts"](whole):
            label = rule["label"](limit) if rule["label"] else f"{item.name.replace('_', ' ')} ≥ {_value_text(limit)}"
            actual, found = rule["reached"](limit, *given)
            reasons = tuple(found)
            yield GateCheck(metric, item.name, label, limit, actual, _actual_text(actual, limit), not reasons, reasons)


def _limits(gate: Gate | RunGates) -> Iterator[tuple[Field[Any], Any]]:
    for item in fields(gate):
        limit = getattr(gate, item.name)
        if limit is not None and limit != () and limit != {}:
            yield item, limit


def _mean_of(limit: float, metric: str, measured: Measured) -> Reached:
    if (mean := _mean(measured)) is None:
        return None, [_without_scores("mean", metric)]
    return mean, [Reason("below_mean", f"{metric}: mean {_below(mean, limit)}", metric)] if mean < limit else []


def _least_conversation_mean(limit: float, metric: str, measured: Measured) -> Reached:
    by_conversation = grouped((outcome.conversation, (outcome, result)) for outcome, result in measured)
    of_each = ((results[0][0], _mean(results)) for results in by_conversation.values())
    means = [(first, mean) for first, mean in of_each if mean is not None]
    if not means:
        return None, [_without_scores("conversation_mean", metric)]
    reasons = [
        Reason(
            "below_conversation_mean",
            f"{first.conversation}: {metric}: mean {_below(mean, limit)}",
            metric,
            first.conversation,
            first.case_id,
        )
        for first, mean in means
        if mean < limit
    ]
    return min(mean for _, mean in means), reasons


def _pass_rate(limit: float, metric: str, measured: Measured) -> Reached:
    verdicts = [result.passed for _, result in measured if result.passed is not None]
    if not verdicts:
        message = f"{metric}: the gate pass_rate needs an evaluator with a threshold"
        return None, [Reason("unmeasured", message, metric)]
    rate = fmean(verdicts)
    below = [Reason("below_pass_rate", f"{metric}: pass rate {_below(rate, limit)}", metric)]
    return rate, below if rate < limit else []


def _forbidden_labels(labels: Sequence[str], metric: str, measured: Measured) -> Reached:
    reasons = [
        reason_of("forbidden_label", f"{outcome.where}: {metric} is {result.label!r}: {result.reason}", outcome, metric)
        for outcome, result in measured
        if result.label in labels
    ]
    return len(reasons), reasons


def _on_scale(evaluator: EvaluatorBase, limit: float) -> None:
    """Refuses a mean outside the evaluator's scale, which every run or no run would reach."""
    low, high = evaluator.scale
    if not low <= limit <= high:
        raise FieldError(f"must lie between {low:g} and {high:g}, the scale of {evaluator.name}; got {limit}")


def _known_labels(evaluator: EvaluatorBase, labels: Sequence[str]) -> None:
    """Refuses a label that the evaluator never returns."""
    if known := getattr(evaluator, "forbiddable", None) or getattr(evaluator, "labels", None):
        for index, label in enumerate(labels):
            at(index, lambda word: choice(word, known), label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(SuiteFields):
    """The limits of one metric, on its own scale. They replace "every result must pass".

    In a suite a number alone is the `mean`.
    """

    mean: Number | None = field(default=None, metadata=_rule(_mean_of, fits=_on_scale))
    """The lowest accepted mean over the run."""
    conversation_mean: Number | None = field(
        default=None,
        metadata=_rule(
            _least_conversation_mean,
            lambda limit: f"mean of each conversation ≥ {_value_text(limit)}",
            fits=_on_scale,
        ),
    )
    """The lowest accepted mean within each conversation."""
    pass_rate: Share | None = field(default=None, metadata=_rule(_pass_rate))
    """The lowest accepted share of results that pass their evaluator's threshold, 0 to 1."""
    forbid: Texts = field(
        default=(),
        metadata=_rule(_forbidden_labels, lambda labels: f"never {', '.join(labels)}", fits=_known_labels),
    )
    """Labels that no result may have."""
    short = "mean"

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, dict) and not value:
            raise FieldError(f"is empty; accepted are {', '.join(cls.keys())}")
        return cls.entries(value if isinstance(value, dict) else {"mean": value})

    @classmethod
    def schema(cls, declared: Schema) -> Schema:
        return {"anyOf": [{"type": "number"}, {**declared, "minProperties": 1}]}

    def checks(self, metric: str, measured: Measured) -> list[GateCheck]:
        """Its limits and what `measured`, which is not empty, reached."""
        return list(_checks(self, metric, metric, measured))

    def unmeasured(self, metric: str, reason: Reason) -> list[GateCheck]:
        """Its limits where no result was measured."""
        return [
            replace(check, actual=None, text=_actual_text(None, None), passed=False, reasons=(reason,))
            for check in self.checks(metric, ())
        ]

    def check(self, evaluator: EvaluatorBase) -> None:
        """Raise FieldError, whose path begins with the gate's field, for a limit that `evaluator` cannot decide."""
        for item, limit in _limits(self):
            if fits := item.metadata["fits"]:
                at(item.name, partial(fits, evaluator), limit)


# ── gates on the run: each is a rule and a field of `RunGates` ──────────────────────────────────────────────────


def _findings_of(limits: Mapping[Severity, int], outcomes: Sequence[Outcome]) -> Reached:
    found = Counter(severity for outcome in outcomes for severity in outcome.findings if severity in limits)
    reasons = [
        Reason("too_many_findings", f"{found[severity]} findings of severity {severity}, the maximum is {most}")
        for severity, most in limits.items()
        if found[severity] > most
    ]
    return found.total(), reasons


def _captured_share(limit: float, outcomes: Sequence[Outcome]) -> Reached:
    expecting = [outcome.captured for outcome in outcomes if outcome.captured is not None]
    if not expecting:
        return None, [Reason("unmeasured", "captured: the gate needs expected tool calls, but the suite expects none")]
    share = fmean(expecting)
    message = f"tool calls were captured in {share:g} of the turns and conversations that expect them, below {limit:g}"
    return share, [Reason("below_captured", message)] if share < limit else []


def _passed_share(limit: float, outcomes: Sequence[Outcome]) -> Reached:
    """Of scored conversations, without those that the simulated user invalidated, and those in which nothing failed and
    the judge budget left something out; the attempts at a case of which some must pass count as one."""
    invalid = {outcome.conversation for outcome in outcomes if outcome.invalid}
    left_out = {one.conversation for one in outcomes if any(item.label == OVER_BUDGET for item in one.results or ())}
    repeated = [case for case in attempts_in(outcomes) if case.scored]
    turns = grouped((outcome.conversation, _statuses(outcome)) for outcome in outcomes if outcome.must_pass is None)
    found = ((key, frozenset().union(*statuses)) for key, statuses in turns.items() if key not in invalid)
    ended = [(key, statuses.isdisjoint((Status.FAILED, Status.ERRORED))) for key, statuses in found if statuses]
    passed = [well for key, well in ended if not (well and key in left_out)]
    passed += [case.accepted for case in repeated]
    if passed:
        rate = fmean(passed)
        below = [Reason("below_pass_rate", f"pass rate of conversations {_below(rate, limit)}")]
        return rate, below if rate < limit else []
    why = "the simulated user invalidated every conversation" if invalid else "no conversation was scored"
    code = CALLS_UNSEEN if any(outcome.unseen for outcome in outcomes) else "unmeasured"
    return None, [Reason(code, f"pass rate: {why}")] if outcomes else []


def _statuses(outcome: Outcome) -> frozenset[Status]:
    """Those of its results that were not skipped, and failed for a turn that failed or was not executed."""
    found = {result.status for result in outcome.results or () if result.status is not Status.SKIPPED}
    failed = outcome.results is None or outcome.failure is not None
    return frozenset(found | {Status.FAILED} if failed else found)


_COUNT = whole_number(0, 1_000_000_000)
_FINDINGS = Value(
    lambda value: {
        Severity(name): at(name, _COUNT.read, most)
        for name, most in checked_object(value, [severity.value for severity in Severity]).items()
    },
    {
        "type": "object",
        "properties": {severity.value: _COUNT.schema for severity in Severity},
        "additionalProperties": False,
    },
    write=lambda limits: {severity.value: most for severity, most in limits.items()},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGates(SuiteFields):
    """The limits of the run as a whole."""

    findings: Annotated[Mapping[Severity, int], _FINDINGS] = field(
        default_factory=dict,
        metadata=_rule(
            _findings_of,
            lambda limits: ", ".join(f"findings of severity {name} ≤ {most:,}" for name, most in limits.items()),
            parts=lambda limits: [{severity: most} for severity, most in limits.items()],
        ),
    )
    """The maximum number of findings of each severity over all turns."""
    captured: Share | None = field(
        default=None,
        metadata=_rule(_captured_share, lambda limit: f"tool calls captured where expected ≥ {_value_text(limit)}"),
    )
    """The lowest accepted share, 0 to 1, of turns and conversations expecting tool calls in which any was captured."""
    pass_rate: Share | None = field(
        default=None,
        metadata=_rule(_passed_share, lambda limit: f"pass rate of conversations ≥ {_value_text(limit)}"),
    )
    """The lowest accepted share, 0 to 1, of scored conversations that pass; replaces "every result must pass". With 0,
    a metric without a limit that is skipped everywhere fails nothing."""

    def checks(self, outcomes: Sequence[Outcome]) -> list[GateCheck]:
        """Its limits and what the run reached."""
        return list(_checks(self, None, outcomes))


RUN_GATES = RunGates.keys()
"""Names in a suite's `gates` that limit the run, not a metric."""
