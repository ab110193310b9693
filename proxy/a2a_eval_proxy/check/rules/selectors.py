"""Selects turns, exchanges and artifacts for the traffic rules. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...protocol.operations import Operation
from ..probe.occurrences import Kind, Occurrence
from ..probe.record import Activation, ProbeExchange, ProbeRecord, ProbeTurn, ResponseEvent
from ..probe.requests import STREAMING
from ..probe.responses import entries, occurrences, task_id_of
from .base import Skipped, Subject

NO_CALLS = "no tool call was seen: send a message that makes your agent call a tool (--message)"
TOO_QUICK = "the task ended before a subscription could begin: send a message that takes longer (--message)"
NO_TASK = "no answer contained a task"
ASKING = (Activation.V1, Activation.V1_WITH_UNKNOWN)


def subjects_of(record: ProbeRecord) -> list[Subject]:
    """Returns the input of the traffic rules for each interface."""
    turns = [turn for conversation in record.conversations for turn in conversation.turns]
    messages = frozenset(turn.message for turn in turns if has_calls(turn))
    return [Subject(conversation, messages) for conversation in record.conversations]


def skip_unless_offered(subject: Subject, operation: Operation) -> None:
    """Raises Skipped if the interface does not have this operation."""
    if operation in STREAMING and not subject.conversation.streams:
        raise Skipped("the card does not declare streaming")
    if operation is Operation.LIST and subject.conversation.interface.legacy:
        raise Skipped("A2A 0.3 has no ListTasks")


def turns_by(subject: Subject, operation: Operation, activation: Activation) -> list[ProbeTurn]:
    return [
        turn
        for turn in subject.conversation.turns
        if turn.activation is activation and turn.opening.operation is operation
    ]


def exchanges_asking(subject: Subject, *activation: Activation) -> Iterator[ProbeExchange]:
    for turn in subject.conversation.turns:
        yield from (exchange for exchange in turn.exchanges if exchange.activation in activation)


def exchanges_by(subject: Subject, operation: Operation, activation: Activation) -> list[ProbeExchange]:
    return [exchange for exchange in exchanges_asking(subject, activation) if exchange.operation is operation]


def asking_occurrences(subject: Subject, kind: Kind) -> Iterator[tuple[ProbeExchange, Occurrence]]:
    """Occurrences of this kind in answers to requests that activate version 1."""
    for exchange in exchanges_asking(subject, *ASKING):
        yield from ((exchange, occurrence) for occurrence in occurrences(exchange) if occurrence.kind is kind)


def has_calls(turn: ProbeTurn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges if exchange.activation in ASKING)


def whole_task(exchange: ProbeExchange, task_id: str) -> ResponseEvent | None:
    """Returns the event with the whole task, or None."""
    shown = (event for event in exchange.events if event.normal is not None and "task" in event.normal)
    return next((event for event in shown if task_id_of(event.normal or {}) == task_id), None)


def task_artifacts(event: ResponseEvent) -> object:
    return {"artifacts": (event.normal or {})["task"].get("artifacts", [])}


def all_artifacts(exchange: ProbeExchange) -> list[dict[str, Any]]:
    return [artifact for event in exchange.normal_events for artifact, _ in artifacts_in(event)]


def artifacts_in(event: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yields the artifacts of an event, each with whether it appends to an earlier one."""
    task, update = event.get("task"), event.get("artifactUpdate")
    if isinstance(task, dict) and isinstance(task.get("artifacts"), list):
        yield from ((artifact, False) for artifact in task["artifacts"] if isinstance(artifact, dict))
    if isinstance(update, dict) and isinstance(update.get("artifact"), dict):
        yield update["artifact"], update.get("append") is True
