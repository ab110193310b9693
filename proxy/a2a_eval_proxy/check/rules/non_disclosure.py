"""Whether those who did not ask are told nothing, in any operation, and unknown versions activate nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...protocol.operations import Operation
from ..probe.record import Asked
from ..probe.responses import Kind, Sighting, sightings
from .base import Outcome, Subject, found, problem
from .selectors import NO_CALLS, NO_TASK, TOO_QUICK, exchanges_asking, exchanges_by, messages_with_calls


def silent_in(operation: Operation) -> Callable[[Subject], Outcome]:
    """Whether answers of this operation have nothing of the extension where the request activates nothing."""

    def test(subject: Subject) -> Outcome:
        if operation in (Operation.STREAM, Operation.SUBSCRIBE) and not subject.conversation.streams:
            return Outcome(skipped="the card says that the agent does not stream")
        if operation is Operation.LIST and subject.conversation.interface.legacy:
            return Outcome(skipped="A2A 0.3 does not list tasks")
        exchanges = exchanges_by(subject, operation, Asked.NOTHING)
        problems = [
            problem(exchange, f"{sighting.kind.value}, although nothing was asked for", sighting.where, sighting.value)
            for exchange in exchanges
            if (sighting := _worst(sightings(exchange))) is not None
        ]
        if problems:
            return found(problems)
        answered = [exchange for exchange in exchanges if not exchange.problem]
        if not answered and exchanges and operation is Operation.SUBSCRIBE:
            return Outcome(unseen=TOO_QUICK)
        if not answered:
            return Outcome(unseen=exchanges[0].problem if exchanges else NO_TASK)
        return Outcome() if messages_with_calls(subject) else Outcome(unseen=NO_CALLS)

    return test


def _worst(seen: Iterable[Sighting]) -> Sighting | None:
    """The most telling; None where there is nothing."""
    return min(seen, key=lambda sighting: sighting.kind is not Kind.CALLS, default=None)


def unknown_silent(subject: Subject) -> Outcome:
    """Whether answers have nothing of version 1 where only others are asked for, and nothing of others at all."""
    problems = []
    for exchange in exchanges_asking(subject, Asked.UNKNOWN, Asked.V1, Asked.BESIDE):
        v1_is_right = exchange.asked is not Asked.UNKNOWN
        sighting = _worst(seen for seen in sightings(exchange) if not (seen.of_v1 and v1_is_right))
        if sighting is not None:
            message = f"{sighting.kind.value}, although the request activates {exchange.asked.value} only"
            problems.append(problem(exchange, message, sighting.where, sighting.value))
    if problems:
        return found(problems)
    if not any(not exchange.problem for exchange in exchanges_asking(subject, Asked.UNKNOWN)):
        return Outcome(unseen="no request for an unknown version was answered")
    return Outcome() if messages_with_calls(subject) else Outcome(unseen=NO_CALLS)
