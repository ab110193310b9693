"""Rules: the agent answers, and shows its calls on request in every operation that shows a task."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.operations import Operation
from ..probe.record import Activation, ProbeExchange, ProbeTurn
from ..probe.responses import (
    Kind,
    calls_lost,
    entries,
    entries_in,
    first_task_id,
    occurrences,
    only_message,
    settled,
)
from .base import RuleOutcome, Subject, outcome_of, problem
from .selectors import (
    NO_CALLS,
    NO_TASK,
    TOO_QUICK,
    all_artifacts,
    artifacts_in,
    has_calls,
    messages_with_calls,
    task_artifacts,
    turns_by,
    whole_task,
)

# ── answers at all ──────────────────────────────────────────────────────────────────────────────────────────


def plain_messages_answered(subject: Subject) -> RuleOutcome:
    """Messages without an activated extension are answered, sent and streamed."""
    return outcome_of(
        problem(turn.opening, f"no usable answer to a message that activates no extension: {turn.opening.problem}")
        for turn in subject.conversation.turns
        if turn.activation is Activation.NOTHING and turn.opening.problem
    )


def asking_is_harmless(*activation: Activation) -> Callable[[Subject], RuleOutcome]:
    """Messages with these activations are answered if the same messages without an extension are."""

    def test(subject: Subject) -> RuleOutcome:
        answered = {
            (turn.opening.operation, turn.message)
            for turn in subject.conversation.turns
            if turn.activation is Activation.NOTHING and not turn.opening.problem
        }
        if not answered:
            return RuleOutcome(unseen="messages that activate no extension are not answered either")
        return outcome_of(
            problem(turn.opening, f"the agent answers this message only without the extension: {turn.opening.problem}")
            for turn in subject.conversation.turns
            if turn.activation in activation
            and turn.opening.problem
            and (turn.opening.operation, turn.message) in answered
        )

    return test


# ── clients that activate version 1 get calls ───────────────────────────────────────────────────────────────


def calls_shown_in(operation: Operation, activation: Activation) -> Callable[[Subject], RuleOutcome]:
    """Each message that causes calls shows them in answers of this operation with this activation."""

    def test(subject: Subject) -> RuleOutcome:
        if operation is Operation.STREAM and not subject.conversation.streams:
            return RuleOutcome(skipped="the card does not declare streaming")
        causing = messages_with_calls(subject)
        if not causing:
            only = [turn for turn in subject.conversation.turns if only_message(turn.opening)]
            hint = ". The agent answers with Messages, but only artifacts carry tool calls" if only else ""
            return RuleOutcome(unseen=NO_CALLS + hint)
        if activation is Activation.V1_WITH_UNKNOWN:
            causing = {
                turn.message for turn in turns_by(subject, operation, Activation.V1) if _shows_calls_in_time(turn)
            }
            if not causing:
                return RuleOutcome(unseen="requests that activate version 1 alone show no tool calls either")
        by_message: dict[str, list[ProbeTurn]] = {}
        for turn in turns_by(subject, operation, activation):
            if not turn.opening.problem and turn.message in causing:
                by_message.setdefault(turn.message, []).append(turn)
        if not by_message:
            return RuleOutcome(unseen="no such request was answered")
        problems = []
        for message, turns in by_message.items():
            if any(_shows_calls_in_time(turn) for turn in turns):
                continue
            text = f"no tool calls, although {message!r} makes the agent call tools and the request activates version 1"
            problems.append(problem(turns[0].opening, text, "its artifacts", all_artifacts(turns[0].opening)))
        return outcome_of(problems)

    return test


def activated_by_header_only(subject: Subject) -> RuleOutcome:
    """The agent reads activations from the extensions header, not only from other places."""
    turns = subject.conversation.turns
    if any(has_calls(turn) for turn in turns):
        return RuleOutcome()
    header = subject.conversation.interface.extensions_header
    message = f"tool calls only for activation by message.extensions or by another header, not by {header}"
    problems = [
        problem(turn.opening, message, "its artifacts", all_artifacts(turn.opening))
        for turn in turns
        if turn.activation is Activation.V1_IN_WRONG_PLACE and entries(turn.opening)
    ]
    return outcome_of(problems) if problems else RuleOutcome(unseen=NO_CALLS)


def _shows_calls_in_time(turn: ProbeTurn) -> bool:
    """An agent may answer before it finishes the message; then later reads of the task count."""
    if entries(turn.opening):
        return True
    return not settled(turn.opening) and has_calls(turn)


def calls_shown_on_reread(operation: Operation) -> Callable[[Subject], RuleOutcome]:
    """Reads of a task that activate version 1 show the calls of its opening answer."""

    def test(subject: Subject) -> RuleOutcome:
        if operation is Operation.LIST and subject.conversation.interface.legacy:
            return RuleOutcome(skipped="A2A 0.3 has no ListTasks")
        judged = 0
        refusals = []
        problems = []
        for turn in turns_by(subject, Operation.SEND, Activation.V1):
            if not entries(turn.opening):
                continue
            for exchange in turn.later:
                if exchange.operation is not operation or exchange.activation is not Activation.V1:
                    continue
                if exchange.problem:
                    refusals.append(exchange.problem)
                    continue
                event = whole_task(exchange, first_task_id(turn.opening))
                if event is None:
                    refusals.append("the answer does not contain the task")
                    continue
                judged += 1
                if not entries_in(event):
                    message = "the task's tool calls are missing"
                elif lost := calls_lost(turn.opening, event):
                    message = f"{lost} of the task's tool calls are missing"
                else:
                    continue
                problems.append(problem(exchange, message, event.where, task_artifacts(event)))
        if not judged:
            return RuleOutcome(unseen=refusals[0] if refusals else "no task with tool calls to read")
        return outcome_of(problems)

    return test


def calls_shown_to_subscribers(subject: Subject) -> RuleOutcome:
    """Subscribers that activate version 1 get calls.

    Applies only if the subscriber received the artifacts from their start to the end of the task.
    """
    if not subject.conversation.streams:
        return RuleOutcome(skipped="the card does not declare streaming")
    judged = tried = 0
    problems = []
    for turn in subject.conversation.turns:
        for exchange in turn.later:
            if exchange.operation is not Operation.SUBSCRIBE or exchange.activation is not Activation.V1:
                continue
            tried += 1
            if exchange.problem:
                continue
            if settled(exchange) and _artifacts_with_calls(turn.opening) & _seen_whole(exchange):
                judged += 1
                if not entries(exchange):
                    problems.append(problem(exchange, "the subscription activates version 1 but shows no tool calls"))
    return outcome_of(problems) if judged else RuleOutcome(unseen=TOO_QUICK if tried else NO_TASK)


def _artifacts_with_calls(exchange: ProbeExchange) -> set[str]:
    return {
        str(occurrence.artifact.get("artifactId") or occurrence.artifact.get("artifact_id"))
        for occurrence in occurrences(exchange)
        if occurrence.kind is Kind.CALLS
        and occurrence.artifact is not None
        and isinstance(occurrence.value, list)
        and occurrence.value
    }


def _seen_whole(exchange: ProbeExchange) -> set[str]:
    """Returns the ids of the artifacts whose first chunk is in the answer."""
    return {
        str(artifact.get("artifactId"))
        for event in exchange.normal_events
        for artifact, appended in artifacts_in(event)
        if not appended
    }
