"""Rules: answers to other clients contain nothing of the extension, and unknown versions activate nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...protocol.operations import Operation
from ..probe.record import Activation
from ..probe.responses import Kind, Occurrence, occurrences
from .base import Problem, Subject, Unseen, problem_at
from .selectors import NO_CALLS, NO_TASK, TOO_QUICK, exchanges_asking, exchanges_by, skip_unless_offered


def nothing_shown_in(operation: Operation, subject: Subject) -> Iterator[Problem]:
    """Answers of this operation contain nothing of the extension unless the request activates it."""
    skip_unless_offered(subject, operation)
    exchanges = exchanges_by(subject, operation, Activation.NOTHING)
    for exchange in exchanges:
        if (occurrence := _worst(occurrences(exchange))) is not None:
            message = f"{occurrence.kind.value}, although the request activates no extension"
            yield problem_at(exchange, message, occurrence)
    if not exchanges:
        raise Unseen(NO_TASK)
    if all(exchange.problem for exchange in exchanges):
        raise Unseen(TOO_QUICK if operation is Operation.SUBSCRIBE else exchanges[0].problem)
    if not subject.messages_with_calls:
        raise Unseen(NO_CALLS)


def _worst(seen: Iterable[Occurrence]) -> Occurrence | None:
    """Returns the most serious occurrence, or None."""
    return min(seen, key=lambda occurrence: occurrence.kind is not Kind.CALLS, default=None)


def unknown_versions_activate_nothing(subject: Subject) -> Iterator[Problem]:
    """Answers contain version 1 only if the request activates it, and never another version."""
    for exchange in exchanges_asking(subject, Activation.UNKNOWN, Activation.V1, Activation.V1_WITH_UNKNOWN):
        v1_is_right = exchange.activation is not Activation.UNKNOWN
        occurrence = _worst(seen for seen in occurrences(exchange) if not (seen.of_v1 and v1_is_right))
        if occurrence is not None:
            message = f"{occurrence.kind.value}, although the request activates only {exchange.activation.value}"
            yield problem_at(exchange, message, occurrence)
    if all(exchange.problem for exchange in exchanges_asking(subject, Activation.UNKNOWN)):
        raise Unseen("no request for an unknown version was answered")
    if not subject.messages_with_calls:
        raise Unseen(NO_CALLS)
