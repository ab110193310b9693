"""Rules: the agent answers, and shows its calls in every operation that shows a task, but only on request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tool_call_evaluators.grouping import grouped

from ...protocol.operations import Operation
from ..probe.occurrences import Kind, Occurrence
from ..probe.record import Activation, ProbeExchange, ProbeTurn
from ..probe.responses import (
    calls_lost,
    entries,
    entries_in,
    first_task_id,
    occurrences,
    only_message,
    settled,
)
from .base import Problem, Subject, Unseen, problem, problem_at
from .selectors import (
    NO_CALLS,
    NO_TASK,
    TOO_QUICK,
    all_artifacts,
    artifacts_in,
    exchanges_asking,
    exchanges_by,
    has_calls,
    skip_unless_offered,
    task_artifacts,
    turns_by,
    whole_task,
)

# ── answers at all ──────────────────────────────────────────────────────────────────────────────────────────


def plain_messages_answered(subject: Subject) -> Iterator[Problem]:
    """Messages without an activated extension are answered, sent and streamed."""
    for turn in subject.conversation.turns:
        if turn.activation is Activation.NOTHING and turn.opening.problem:
            message = f"no usable answer to a message that activates no extension: {turn.opening.problem}"
            yield problem(turn.opening, message)


def asking_is_harmless(activations: Collection[Activation], subject: Subject) -> Iterator[Problem]:
    """Messages with these activations are answered if the same messages without an extension are."""
    answered = {
        (turn.opening.operation, turn.message)
        for turn in subject.conversation.turns
        if turn.activation is Activation.NOTHING and not turn.opening.problem
    }
    if not answered:
        raise Unseen("messages that activate no extension are not answered either")
    for turn in subject.conversation.turns:
        known = (turn.opening.operation, turn.message) in answered
        if known and turn.activation in activations and turn.opening.problem:
            message = f"the agent answers this message only without the extension: {turn.opening.problem}"
            yield problem(turn.opening, message)


# ── clients that activate version 1 get calls ───────────────────────────────────────────────────────────────


def calls_shown_in(operation: Operation, activation: Activation, subject: Subject) -> Iterator[Problem]:
    """Each message that causes calls shows them in answers of this operation with this activation."""
    skip_unless_offered(subject, operation)
    causing = subject.messages_with_calls
    if not causing:
        only_messages = any(only_message(turn.opening) for turn in subject.conversation.turns)
        hint = ". The agent answers with Messages, but only artifacts carry tool calls" if only_messages else ""
        raise Unseen(NO_CALLS + hint)
    if activation is Activation.V1_WITH_UNKNOWN:
        alone = turns_by(subject, operation, Activation.V1)
        causing = frozenset(turn.message for turn in alone if _shows_calls_in_time(turn))
        if not causing:
            raise Unseen("requests that activate version 1 alone show no tool calls either")
    answered = (turn for turn in turns_by(subject, operation, activation) if not turn.opening.problem)
    by_message = grouped((turn.message, turn) for turn in answered if turn.message in causing)
    if not by_message:
        raise Unseen("no such request was answered")
    for message, turns in by_message.items():
        if not any(map(_shows_calls_in_time, turns)):
            text = f"no tool calls, although {message!r} makes the agent call tools and the request activates version 1"
            yield problem(turns[0].opening, text, "its artifacts", all_artifacts(turns[0].opening))


def activated_by_header_only(subject: Subject) -> Iterator[Problem]:
    """The agent reads activations from the extensions header, not only from other places."""
    turns = subject.conversation.turns
    if any(has_calls(turn) for turn in turns):
        return
    header = subject.conversation.interface.extensions_header
    message = f"tool calls only for activation by message.extensions or by another header, not by {header}"
    for turn in turns:
        if turn.activation is Activation.V1_IN_WRONG_PLACE and entries(turn.opening):
            yield problem(turn.opening, message, "its artifacts", all_artifacts(turn.opening))
    raise Unseen(NO_CALLS)


def _shows_calls_in_time(turn: ProbeTurn) -> bool:
    """An agent may answer before it finishes the message; then later reads of the task count."""
    if entries(turn.opening):
        return True
    return not settled(turn.opening) and has_calls(turn)


def calls_shown_on_reread(operation: Operation, subject: Subject) -> Iterator[Problem]:
    """Reads of a task that activate version 1 show the calls of its opening answer."""
    skip_unless_offered(subject, operation)
    judged = False
    refusals = []
    for turn in turns_by(subject, Operation.SEND, Activation.V1):
        if not entries(turn.opening):
            continue
        for exchange in turn.later_by(operation, Activation.V1):
            event = whole_task(exchange, first_task_id(turn.opening))
            if exchange.problem or event is None:
                refusals.append(exchange.problem or "the answer does not contain the task")
                continue
            judged = True
            if not entries_in(event):
                yield problem(exchange, "the task's tool calls are missing", event.where, task_artifacts(event))
            elif lost := calls_lost(turn.opening, event):
                message = f"{lost} of the task's tool calls are missing"
                yield problem(exchange, message, event.where, task_artifacts(event))
    if not judged:
        raise Unseen(refusals[0] if refusals else "no task with tool calls to read")


def calls_shown_to_subscribers(subject: Subject) -> Iterator[Problem]:
    """Subscribers that activate version 1 get calls.

    Applies only if the subscriber received the artifacts from their start to the end of the task.
    """
    skip_unless_offered(subject, Operation.SUBSCRIBE)
    judged = tried = False
    for turn in subject.conversation.turns:
        for exchange in turn.later_by(Operation.SUBSCRIBE, Activation.V1):
            tried = True
            if exchange.problem or not settled(exchange):
                continue
            if _artifacts_with_calls(turn.opening) & _seen_whole(exchange):
                judged = True
                if not entries(exchange):
                    yield problem(exchange, "the subscription activates version 1 but shows no tool calls")
    if not judged:
        raise Unseen(TOO_QUICK if tried else NO_TASK)


def _artifacts_with_calls(exchange: ProbeExchange) -> set[str]:
    return {
        str(occurrence.artifact.get("artifactId") or occurrence.artifact.get("artifact_id"))
        for occurrence in occurrences(exchange)
        if occurrence.entries and occurrence.artifact is not None
    }


def _seen_whole(exchange: ProbeExchange) -> set[str]:
    """Returns the ids of the artifacts whose first chunk is in the answer."""
    return {
        str(artifact.get("artifactId"))
        for event in exchange.normal_events
        for artifact, appended in artifacts_in(event)
        if not appended
    }


# ── other clients get nothing ───────────────────────────────────────────────────────────────────────────────────


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
