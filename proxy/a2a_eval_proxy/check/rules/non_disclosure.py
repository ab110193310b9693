"""Rules: answers to other clients contain nothing of the extension, and unknown versions activate nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...protocol.operations import Operation
from ..probe.record import Activation
from ..probe.responses import Kind, Occurrence, occurrences
from .base import RuleOutcome, Subject, outcome_of, problem, problem_at
from .selectors import NO_CALLS, NO_TASK, TOO_QUICK, exchanges_asking, exchanges_by, messages_with_calls


def nothing_shown_in(operation: Operation) -> Callable[[Subject], RuleOutcome]:
    """Answers of this operation contain nothing of the extension unless the request activates it."""

    def test(subject: Subject) -> RuleOutcome:
        if operation in (Operation.STREAM, Operation.SUBSCRIBE) and not subject.conversation.streams:
            return RuleOutcome(skipped="the card does not declare streaming")
        if operation is Operation.LIST and subject.conversation.interface.legacy:
            return RuleOutcome(skipped="A2A 0.3 has no ListTasks")
        exchanges = exchanges_by(subject, operation, Activation.NOTHING)
        problems = [
            problem(
                exchange,
                f"{occurrence.kind.value}, although the request activates no extension",
                occurrence.where,
                occurrence.value,
            )
            for exchange in exchanges
            if (occurrence := _worst(occurrences(exchange))) is not None
        ]
        if problems:
            return outcome_of(problems)
        answered = [exchange for exchange in exchanges if not exchange.problem]
        if not answered and exchanges and operation is Operation.SUBSCRIBE:
            return RuleOutcome(unseen=TOO_QUICK)
        if not answered:
            return RuleOutcome(unseen=exchanges[0].problem if exchanges else NO_TASK)
        return RuleOutcome() if messages_with_calls(subject) else RuleOutcome(unseen=NO_CALLS)

    return test


def _worst(seen: Iterable[Occurrence]) -> Occurrence | None:
    """Returns the most serious occurrence, or None."""
    return min(seen, key=lambda occurrence: occurrence.kind is not Kind.CALLS, default=None)


def unknown_versions_activate_nothing(subject: Subject) -> RuleOutcome:
    """Answers contain version 1 only if the request activates it, and never another version."""
    problems = []
    for exchange in exchanges_asking(subject, Activation.UNKNOWN, Activation.V1, Activation.V1_WITH_UNKNOWN):
        v1_is_right = exchange.activation is not Activation.UNKNOWN
        occurrence = _worst(seen for seen in occurrences(exchange) if not (seen.of_v1 and v1_is_right))
        if occurrence is not None:
            message = f"{occurrence.kind.value}, although the request activates only {exchange.activation.value}"
            problems.append(problem_at(exchange, message, occurrence))
    if problems:
        return outcome_of(problems)
    if not any(not exchange.problem for exchange in exchanges_asking(subject, Activation.UNKNOWN)):
        return RuleOutcome(unseen="no request for an unknown version was answered")
    return RuleOutcome() if messages_with_calls(subject) else RuleOutcome(unseen=NO_CALLS)
