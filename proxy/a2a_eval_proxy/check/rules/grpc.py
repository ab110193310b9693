"""Rules about how an agent serves gRPC: services, errors, metadata. The rules of the extension apply as well."""

from __future__ import annotations

from collections.abc import Iterator

from ..probe.record import GrpcError, GrpcSeen, GrpcTrial, ProbeExchange
from ..probe.responses import entries, first_task_id, shows_end
from .base import NO_CALLS, NO_TASK, TOO_QUICK, Problem, Rule, Skipped, Unseen, problem, rules

_DOMAIN = "a2a-protocol.org"
_NO_CREDENTIALS = ("UNAUTHENTICATED", "PERMISSION_DENIED")


_ERRORS = {
    GrpcTrial.UNKNOWN_TASK: ("NOT_FOUND", ["TASK_NOT_FOUND"]),
    GrpcTrial.CANCEL: ("FAILED_PRECONDITION", ["TASK_NOT_CANCELABLE"]),
    GrpcTrial.SUBSCRIBE: ("FAILED_PRECONDITION", ["UNSUPPORTED_OPERATION"]),
    GrpcTrial.EXTENDED_CARD: ("FAILED_PRECONDITION", ["UNSUPPORTED_OPERATION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"]),
}
"""The status and the possible reasons of the error of A2A 1.0 for a trial (sections 5.4 and 10.6)."""


def _trial(seen: GrpcSeen, trial: GrpcTrial, otherwise: str = NO_TASK) -> ProbeExchange:
    """The exchange of a trial. Raises Unseen if it was not made."""
    if not seen.served:
        raise Unseen(f"the agent does not serve {seen.interface.grpc_service}")
    if trial not in seen.trials:
        raise Unseen(otherwise)
    exchange = seen.trials[trial]
    if exchange.status == 0:
        raise Unseen(f"the agent does not answer: {exchange.problem}")
    return exchange


def _served(seen: GrpcSeen) -> Iterator[Problem]:
    if seen.served:
        return
    other = seen.trials.get(GrpcTrial.OTHER_SERVICE)
    served = (
        f"it serves {other.request.interface.grpc_service}"
        if other is not None and not other.is_unimplemented
        else "nor the other"
    )
    exchange = seen.trials[GrpcTrial.UNKNOWN_TASK]
    yield problem(exchange, f"the agent does not serve {seen.interface.grpc_service} ({served})")


def _refused(seen: GrpcSeen) -> Iterator[tuple[GrpcTrial, ProbeExchange]]:
    """Yields the trials that must end with an error, as far as they were made."""
    yield GrpcTrial.UNKNOWN_TASK, _trial(seen, GrpcTrial.UNKNOWN_TASK)
    if any(shows_end(*turn.exchanges, *turn.resumed) for turn in seen.conversation.turns):
        for trial in (GrpcTrial.CANCEL, GrpcTrial.SUBSCRIBE):
            if trial in seen.trials and seen.trials[trial].status:
                yield trial, seen.trials[trial]
    if not seen.offers_extended_card and GrpcTrial.EXTENDED_CARD in seen.trials:
        yield GrpcTrial.EXTENDED_CARD, seen.trials[GrpcTrial.EXTENDED_CARD]


def _errors_are_errors(seen: GrpcSeen) -> Iterator[Problem]:
    for trial, exchange in _refused(seen):
        if exchange.grpc_error is None and trial is not GrpcTrial.EXTENDED_CARD:  # one more card does no harm
            excerpt = exchange.events[0].raw if exchange.events else None
            yield problem(exchange, f"{trial.value} succeeds; expected an error", excerpt=excerpt)


def _status_codes(seen: GrpcSeen) -> Iterator[Problem]:
    for trial, exchange, error in _errors_of_1_0(seen):
        expected, _ = _ERRORS[trial]
        if error.code != expected:
            yield problem(exchange, f"{trial.value}: status {error.code}, expected {expected}")


def _error_info(seen: GrpcSeen) -> Iterator[Problem]:
    for trial, exchange, error in _errors_of_1_0(seen):
        _, reasons = _ERRORS[trial]
        if error.reason in reasons and error.domain == _DOMAIN:
            continue
        wanted = f"reason {' or '.join(reasons)} and domain {_DOMAIN}"
        got = f"has reason {error.reason!r} and domain {error.domain!r}" if error.reason else "has no ErrorInfo"
        yield problem(exchange, f"{trial.value}: the status {got}; expected an ErrorInfo with {wanted}")


def _errors_of_1_0(seen: GrpcSeen) -> Iterator[tuple[GrpcTrial, ProbeExchange, GrpcError]]:
    if seen.interface.legacy:
        raise Skipped("A2A 0.3 does not define the errors of gRPC")
    for trial, exchange in _refused(seen):
        if exchange.grpc_error is not None:
            yield trial, exchange, exchange.grpc_error


def _extended_card(seen: GrpcSeen) -> Iterator[Problem]:
    if not seen.offers_extended_card:
        raise Skipped("the card offers no extended card")
    exchange = _trial(seen, GrpcTrial.EXTENDED_CARD)
    error = exchange.grpc_error
    if error is not None and error.code in _NO_CREDENTIALS:
        raise Unseen(f"the agent shows it only to callers that it knows ({error.code}): pass credentials with --header")
    if exchange.problem:
        yield problem(exchange, f"the card offers an extended card that the agent does not return: {exchange.problem}")
    elif not exchange.events or not exchange.events[0].raw.get("name"):
        excerpt = exchange.events[0].raw if exchange.events else None
        yield problem(exchange, "the extended card has no name", excerpt=excerpt)


def _versions(seen: GrpcSeen) -> Iterator[Problem]:
    if seen.interface.legacy:
        raise Skipped("A2A 0.3 does not negotiate versions")
    exchange = _trial(seen, GrpcTrial.UNKNOWN_VERSION)
    error = exchange.grpc_error
    if error is None or (error.code, error.reason) != ("FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"):
        got = exchange.problem or "a task"
        yield problem(exchange, f"a version that does not exist is answered with {got}; expected VERSION_NOT_SUPPORTED")


def _metadata_harmless(seen: GrpcSeen) -> Iterator[Problem]:
    exchange = _trial(seen, GrpcTrial.UNKNOWN_METADATA)
    if exchange.problem:
        yield problem(exchange, f"the agent answers this call only without the unknown metadata: {exchange.problem}")


def _repeated_extensions(seen: GrpcSeen) -> Iterator[Problem]:
    exchange = _trial(seen, GrpcTrial.REPEATED_EXTENSIONS)
    task_id = first_task_id(exchange)
    reads = [read for turn in seen.conversation.turns for read in turn.later if first_task_id(read) == task_id]
    if not any(entries(read) for read in reads):
        raise Unseen(NO_CALLS)
    if not entries(exchange):
        yield problem(exchange, "the agent reads only one of two entries of the extensions, and so shows no tool calls")


def _subscription_begins_with_task(seen: GrpcSeen) -> Iterator[Problem]:
    if not seen.conversation.streams:
        raise Skipped("the card does not declare streaming")
    if seen.interface.legacy:
        raise Skipped("A2A 0.3 does not define the first message of a subscription")
    judged = False
    for turn in seen.conversation.turns:
        for exchange in turn.later:
            first = next(exchange.normal_events, None)
            if exchange.operation.value != "subscribe" or first is None:
                continue
            judged = True
            if "task" not in first:
                found = exchange.events[0]
                yield problem(exchange, "the first message of a subscription is not a Task", found.where, found.raw)
    if not judged:
        raise Unseen(TOO_QUICK)


def _streams_may_be_cancelled(seen: GrpcSeen) -> Iterator[Problem]:
    if not seen.conversation.streams:
        raise Skipped("the card does not declare streaming")
    exchange = _trial(seen, GrpcTrial.AFTER_ABANDONED_STREAM, "no stream showed a task")
    if exchange.problem:
        yield problem(exchange, f"after the client cancelled a stream, its task cannot be read: {exchange.problem}")


GRPC_RULES: tuple[Rule[GrpcSeen], ...] = rules(
    {
        "grpc-service": _served,
        "grpc-errors": _errors_are_errors,
        "grpc-status": _status_codes,
        "grpc-error-info": _error_info,
        "grpc-extended-card": _extended_card,
        "grpc-version": _versions,
        "grpc-metadata": _metadata_harmless,
        "grpc-extensions-repeated": _repeated_extensions,
        "grpc-subscribe": _subscription_begins_with_task,
        "grpc-cancelled-stream": _streams_may_be_cancelled,
    }
)
