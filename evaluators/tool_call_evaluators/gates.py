"""What the metrics of a run, and the run as a whole, must reach.

A gate is one field of `Gate` or `RunGates`: the field's metadata has its rule, its label in reports and its check;
key, JSON Schema and text of a suite follow from the field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial
from statistics import fmean
from typing import Annotated, Any

from a2a_tool_capture.models import Finding, Severity

from .declared import (
    TEXTS,
    Declared,
    FieldError,
    Number,
    Schema,
    Share,
    Texts,
    Value,
    at,
    checked_object,
    choice,
    number,
    texts,
    whole_number,
)
from .evaluator import EvaluatorBase
from .grouping import grouped
from .model import CALLS_UNSEEN, EvalResult, Status

USER_FAULT, USER_NO_END = USER_REASONS = ("user_fault", "user_no_end")
"""Reasons that lie with the simulated user, never with the agent."""
TOLERABLE = (
    "missing_turn", "failed_turn", "errored", "unmeasured", "nothing_captured", CALLS_UNSEEN, *USER_REASONS
)  # fmt: skip
"""The reasons a suite may tolerate."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one planned turn, or of one conversation as a whole.

    `where` is its name in reports; outcomes with an equal `conversation` belong together; `results` is None if the
    turn was not executed. Reasons copy `case_id` and `turn_id`. `failure` describes how the turn itself failed (a
    failed task, an unreachable agent), else None. `captured`: whether any tool call was captured; None if none was
    expected. `called`: whether any was captured, expected or not. `unseen`: why evaluators of calls skipped the turn
    because its calls are unknown, else None. `user_fault` is a fault of the simulated user; `spoilt`: it cut the
    conversation short.
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
    spoilt: bool = False


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run did not pass: a stable `code`, a sentence, and the metric and place it concerns, if any."""

    code: str
    message: str
    metric: str | None = None
    where: str | None = None
    case_id: str | None = None
    turn_id: str | None = None


Measured = Sequence[tuple[Outcome, EvalResult]]
"""The results of a metric that have a score or a label, each with its outcome."""


def reason_of(code: str, message: str, outcome: Outcome, metric: str | None = None) -> Reason:
    return Reason(code, message, metric, outcome.where, outcome.case_id, outcome.turn_id)


def _mean(measured: Measured) -> float | None:
    """None if there are labels only."""
    scores = [result.score for _, result in measured if result.score is not None]
    return fmean(scores) if scores else None


def _without_scores(gate: str, metric: str) -> Reason:
    return Reason("unmeasured", f"{metric}: the gate {gate} needs scores, but its results are labels only", metric)


# ── gates on a metric: each is a rule and a field of `Gate` ─────────────────────────────────────────────────────


def _rule(
    reasons: Callable[..., Iterable[Reason]],
    label: Callable[[Any], str] | None = None,
    fits: Callable[[EvaluatorBase, Any], None] | None = None,
) -> dict[str, Any]:
    """The metadata of a gate's field.

    `reasons` returns why a limit is not met, `label` describes the limit in reports (default: name ≥ limit), and
    `fits` raises FieldError for a limit that results of an evaluator cannot decide.
    """
    return {"reasons": reasons, "label": label, "fits": fits}


def _limits(gate: Gate | RunGates) -> Iterator[tuple[Field[Any], Any]]:
    for item in fields(gate):
        limit = getattr(gate, item.name)
        if limit is not None and limit != () and limit != {}:
            yield item, limit


def _low_mean(limit: float, metric: str, measured: Measured) -> Iterator[Reason]:
    if (mean := _mean(measured)) is None:
        yield _without_scores("mean", metric)
    elif mean < limit:
        yield Reason("below_mean", f"{metric}: mean {mean:g} is below {limit:g}", metric)


def _low_conversation_mean(limit: float, metric: str, measured: Measured) -> Iterator[Reason]:
    by_conversation = grouped((outcome.conversation, (outcome, result)) for outcome, result in measured)
    if _mean(measured) is None:
        yield _without_scores("conversation_mean", metric)
    for conversation, results in by_conversation.items():
        if (mean := _mean(results)) is not None and mean < limit:
            message = f"{conversation}: {metric}: mean {mean:g} is below {limit:g}"
            yield Reason("below_conversation_mean", message, metric, conversation, results[0][0].case_id)


def _low_pass_rate(limit: float, metric: str, measured: Measured) -> Iterator[Reason]:
    verdicts = [result.passed for _, result in measured if result.passed is not None]
    if not verdicts:
        message = f"{metric}: the gate pass_rate needs an evaluator with a threshold"
        yield Reason("unmeasured", message, metric)
    elif (rate := sum(verdicts) / len(verdicts)) < limit:
        yield Reason("below_pass_rate", f"{metric}: pass rate {rate:g} is below {limit:g}", metric)


def _forbidden_labels(labels: Sequence[str], metric: str, measured: Measured) -> Iterator[Reason]:
    for outcome, result in measured:
        if result.label in labels:
            message = f"{outcome.where}: {metric} is {result.label!r}: {result.reason}"
            yield reason_of("forbidden_label", message, outcome, metric)


def _on_scale(evaluator: EvaluatorBase, limit: float) -> None:
    """Refuses a mean outside the evaluator's scale, which every run or no run would reach."""
    low, high = evaluator.scale
    if not low <= limit <= high:
        raise FieldError(f"must lie between {low:g} and {high:g}, the scale of {evaluator.name}; got {limit}")


def _known_labels(evaluator: EvaluatorBase, labels: Sequence[str]) -> None:
    """Refuses a label that the evaluator never returns."""
    if known := getattr(evaluator, "labels", None):
        for index, label in enumerate(labels):
            at(index, lambda word: choice(word, known), label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate(Declared):
    """The limits of one metric, on its own scale. They replace "every result must pass".

    In a suite a number alone is the `mean`.
    """

    mean: Number | None = field(default=None, metadata=_rule(_low_mean, fits=_on_scale))
    """The lowest accepted mean over the run."""
    conversation_mean: Number | None = field(default=None, metadata=_rule(_low_conversation_mean, fits=_on_scale))
    """The lowest accepted mean within each conversation."""
    pass_rate: Share | None = field(default=None, metadata=_rule(_low_pass_rate))
    """The lowest accepted share of results that pass their evaluator's threshold, 0 to 1."""
    forbid: Texts = field(
        default=(), metadata=_rule(_forbidden_labels, lambda labels: f"never {', '.join(labels)}", _known_labels)
    )
    """Labels that no result may have."""

    @classmethod
    def long_form(cls, value: Any) -> Any:
        if isinstance(value, dict) and not value:
            raise FieldError(f"is empty; accepted are {', '.join(cls.keys())}")
        return cls.entries(value if isinstance(value, dict) else {"mean": value})

    @classmethod
    def short_form(cls, entries: dict[str, Any]) -> Any:
        return entries["mean"] if entries.keys() == {"mean"} else entries

    @classmethod
    def schema(cls, declared: Schema) -> Schema:
        return {"anyOf": [{"type": "number"}, {**declared, "minProperties": 1}]}

    @property
    def labels(self) -> list[str]:
        """Its limits, one string each, for reports."""
        return [
            label(limit) if (label := item.metadata["label"]) else f"{item.name.replace('_', ' ')} ≥ {limit:g}"
            for item, limit in _limits(self)
        ]

    def reasons(self, metric: str, measured: Measured) -> list[Reason]:
        """Why `measured`, which is not empty, does not meet the limits."""
        return [reason for item, limit in _limits(self) for reason in item.metadata["reasons"](limit, metric, measured)]

    def check(self, evaluator: EvaluatorBase) -> None:
        """Raise FieldError, whose path begins with the gate's field, for a limit that `evaluator` cannot decide."""
        for item, limit in _limits(self):
            if fits := item.metadata["fits"]:
                at(item.name, partial(fits, evaluator), limit)


# ── gates on the run: each is a rule and a field of `RunGates` ──────────────────────────────────────────────────


def _many_findings(limits: Mapping[Severity, int], outcomes: Sequence[Outcome]) -> Iterator[Reason]:
    found = Counter(severity for outcome in outcomes for severity in outcome.findings)
    for severity, most in limits.items():
        if found[severity] > most:
            message = f"{found[severity]} findings of severity {severity}, the maximum is {most}"
            yield Reason("too_many_findings", message)


def _few_captured(limit: float, outcomes: Sequence[Outcome]) -> Iterator[Reason]:
    expecting = [outcome.captured for outcome in outcomes if outcome.captured is not None]
    if not expecting:
        yield Reason("unmeasured", "captured: the gate needs expected tool calls, but the suite expects none")
    elif (share := sum(expecting) / len(expecting)) < limit:
        expected = "of the turns and conversations that expect them"
        yield Reason("below_captured", f"tool calls were captured in {share:g} {expected}, below {limit:g}")


def _few_passed(limit: float, outcomes: Sequence[Outcome]) -> Iterator[Reason]:
    passed: dict[str, bool] = {}
    spoilt = {outcome.conversation for outcome in outcomes if outcome.spoilt}
    for outcome in outcomes:
        if outcome.conversation in spoilt:
            continue
        passed[outcome.conversation] = passed.get(outcome.conversation, True) and _all_passed(outcome)
    if spoilt and not passed:
        yield Reason("unmeasured", "pass rate: the simulated user spoilt every conversation")
    if passed and (rate := sum(passed.values()) / len(passed)) < limit:
        yield Reason("below_pass_rate", f"pass rate of conversations {rate:g} is below {limit:g}")


def _all_passed(outcome: Outcome) -> bool:
    """Whether the turn was executed without failure and none of its results failed or errored."""
    if outcome.results is None or outcome.failure is not None:
        return False
    bad = (Status.FAILED, Status.ERRORED)
    return not any(result.status in bad for result in outcome.results)


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
class RunGates(Declared):
    """The limits of the run as a whole."""

    findings: Annotated[Mapping[Severity, int], _FINDINGS] = field(default_factory=dict, metadata=_rule(_many_findings))
    """The maximum number of findings of each severity over all turns."""
    captured: Share | None = field(default=None, metadata=_rule(_few_captured))
    """The lowest accepted share, 0 to 1, of turns and conversations expecting tool calls in which any was captured."""
    pass_rate: Share | None = field(default=None, metadata=_rule(_few_passed))
    """The lowest accepted share, 0 to 1, of conversations that pass; replaces "every result must pass"."""

    def reasons(self, outcomes: Sequence[Outcome]) -> list[Reason]:
        """Why the run does not meet them."""
        return [reason for item, limit in _limits(self) for reason in item.metadata["reasons"](limit, outcomes)]


RUN_GATES = RunGates.keys()
"""Names in a suite's `gates` that limit the run, not a metric."""


# ── arksim's gates ──────────────────────────────────────────────────────────────────────────────────────────────

ARKSIM_GATES: Mapping[str, Schema] = {
    "numeric_thresholds": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
    "qualitative_failure_labels": {"type": "object", "additionalProperties": {"anyOf": [TEXTS, {"type": "null"}]}},
}
"""The two keys in a suite's `gates` that hold limits of several metrics, as in arksim's configuration."""

ARKSIM_METRICS = {"overall_score": "overall_agent_score"}
"""arksim's names in these for metrics that have another name here."""


def by_metric(gates: Mapping[str, Any]) -> dict[str, Any]:
    """The `gates` of a suite with arksim's keys as limits of each metric. Null sets no limit. Raises FieldError."""
    found = {name: gate for name, gate in gates.items() if name not in ARKSIM_GATES}
    for key, limit, read in (
        ("numeric_thresholds", "conversation_mean", number),
        ("qualitative_failure_labels", "forbid", texts),
    ):
        given = {} if gates.get(key) is None else at(key, checked_object, gates[key])
        for name, value in given.items():
            if value is None:
                continue
            at(key, partial(at, name, read), value)
            metric = ARKSIM_METRICS.get(name, name)
            own = found.get(metric, {})
            entries = own if isinstance(own, dict) else {"mean": own}
            if limit in entries:
                raise FieldError(f"{metric} has the gate {limit} already; give one of them", key, name)
            found[metric] = {**entries, limit: value}
    return found
