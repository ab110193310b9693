"""Whether the agent answers, and tells its calls to those who ask: in every operation that shows a task."""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.operations import Operation
from ..probe.record import Asked, Exchange, Turn
from ..probe.responses import Kind, calls_lost, entries, entries_in, first_task_id, only_message, settled, sightings
from .base import Outcome, Subject, found, problem
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


def answers_plain(subject: Subject) -> Outcome:
    """Whether messages that ask for no extension are answered; sends and streams, each for itself."""
    return found(
        problem(turn.opening, f"a plain message got no answer: {turn.opening.problem}")
        for turn in subject.conversation.turns
        if turn.asked is Asked.NOTHING and turn.opening.problem
    )


def harmless(*asked: Asked) -> Callable[[Subject], Outcome]:
    """Whether messages that ask so are answered where plain ones are."""

    def test(subject: Subject) -> Outcome:
        answered = {
            (turn.opening.operation, turn.message)
            for turn in subject.conversation.turns
            if turn.asked is Asked.NOTHING and not turn.opening.problem
        }
        if not answered:
            return Outcome(unseen="plain messages were not answered either")
        return found(
            problem(turn.opening, f"a plain message is answered, this one was not: {turn.opening.problem}")
            for turn in subject.conversation.turns
            if turn.asked in asked and turn.opening.problem and (turn.opening.operation, turn.message) in answered
        )

    return test


# ── who asks is told ────────────────────────────────────────────────────────────────────────────────────────


def told_in(operation: Operation, asked: Asked) -> Callable[[Subject], Outcome]:
    """Whether each message that is known to cause calls shows them in a send, or a stream, that asks so."""

    def test(subject: Subject) -> Outcome:
        if operation is Operation.STREAM and not subject.conversation.streams:
            return Outcome(skipped="the card says that the agent does not stream")
        causing = messages_with_calls(subject)
        if not causing:
            only = [turn for turn in subject.conversation.turns if only_message(turn.opening)]
            hint = ". It answers with Messages; calls travel on artifacts" if only else ""
            return Outcome(unseen=NO_CALLS + hint)
        if asked is Asked.BESIDE:
            causing = {turn.message for turn in turns_by(subject, operation, Asked.V1) if _told(turn)}
            if not causing:
                return Outcome(unseen="who asked for version 1 alone was told no tool calls either")
        by_message: dict[str, list[Turn]] = {}
        for turn in turns_by(subject, operation, asked):
            if not turn.opening.problem and turn.message in causing:
                by_message.setdefault(turn.message, []).append(turn)
        if not by_message:
            return Outcome(unseen="no such request was answered")
        problems = []
        for message, turns in by_message.items():
            if any(_told(turn) for turn in turns):
                continue
            text = f"no tool calls, although {message!r} makes the agent call tools, and version 1 was asked for"
            problems.append(problem(turns[0].opening, text, "its artifacts", all_artifacts(turns[0].opening)))
        return found(problems)

    return test


def by_header(subject: Subject) -> Outcome:
    """Whether the agent looks for the extension in the right place: in no other alone."""
    turns = subject.conversation.turns
    if any(has_calls(turn) for turn in turns):
        return Outcome()
    header = subject.conversation.interface.extensions_header
    message = f"tool calls for a request that asks in message.extensions or another header, none for one with {header}"
    problems = [
        problem(turn.opening, message, "its artifacts", all_artifacts(turn.opening))
        for turn in turns
        if turn.asked is Asked.ASIDE and entries(turn.opening)
    ]
    return found(problems) if problems else Outcome(unseen=NO_CALLS)


def _told(turn: Turn) -> bool:
    """An agent may answer before it is done; then what the task shows later counts."""
    if entries(turn.opening):
        return True
    return not settled(turn.opening) and has_calls(turn)


def told_later(operation: Operation) -> Callable[[Subject], Outcome]:
    """Whether reading a task anew shows the calls that its opening showed, to who asks again."""

    def test(subject: Subject) -> Outcome:
        if operation is Operation.LIST and subject.conversation.interface.legacy:
            return Outcome(skipped="A2A 0.3 does not list tasks")
        judged = 0
        refusals = []
        problems = []
        for turn in turns_by(subject, Operation.SEND, Asked.V1):
            if not entries(turn.opening):
                continue
            for exchange in turn.later:
                if exchange.operation is not operation or exchange.asked is not Asked.V1:
                    continue
                if exchange.problem:
                    refusals.append(exchange.problem)
                    continue
                event = whole_task(exchange, first_task_id(turn.opening))
                if event is None:
                    refusals.append("the task was not in the answer")
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
            return Outcome(unseen=refusals[0] if refusals else "no task with tool calls was there to be read")
        return found(problems)

    return test


def told_subscribers(subject: Subject) -> Outcome:
    """Whether subscribers that ask get calls.

    Judged only where the subscriber saw the artifacts from their beginning to the end of the task.
    """
    if not subject.conversation.streams:
        return Outcome(skipped="the card says that the agent does not stream")
    judged = tried = 0
    problems = []
    for turn in subject.conversation.turns:
        for exchange in turn.later:
            if exchange.operation is not Operation.SUBSCRIBE or exchange.asked is not Asked.V1:
                continue
            tried += 1
            if exchange.problem:
                continue
            if settled(exchange) and _artifacts_with_calls(turn.opening) & _seen_whole(exchange):
                judged += 1
                if not entries(exchange):
                    problems.append(problem(exchange, "the subscriber asked, and got none of the tool calls"))
    return found(problems) if judged else Outcome(unseen=TOO_QUICK if tried else NO_TASK)


def _artifacts_with_calls(exchange: Exchange) -> set[str]:
    return {
        str(sighting.artifact.get("artifactId") or sighting.artifact.get("artifact_id"))
        for sighting in sightings(exchange)
        if sighting.kind is Kind.CALLS
        and sighting.artifact is not None
        and isinstance(sighting.value, list)
        and sighting.value
    }


def _seen_whole(exchange: Exchange) -> set[str]:
    """Ids of the artifacts whose beginning the answer has."""
    return {
        str(artifact.get("artifactId"))
        for event in exchange.normal_events
        for artifact, appended in artifacts_in(event)
        if not appended
    }
