"""What the rules about traffic look at: picked out of all that was said over an interface. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...protocol.operations import Operation
from ..probe.record import Asked, Event, Exchange, Turn
from ..probe.responses import Kind, Sighting, entries, sightings, task_id_of
from .base import Subject

NO_CALLS = "no tool call was ever seen: send a message that makes your agent call a tool (--message)"
TOO_QUICK = "the task was over before a subscription could begin: try a message that takes longer (--message)"
NO_TASK = "there was no task to ask about"
ASKING = (Asked.V1, Asked.BESIDE)


def turns_by(subject: Subject, operation: Operation, *asked: Asked) -> list[Turn]:
    return [turn for turn in subject.conversation.turns if turn.asked in asked and turn.opening.operation is operation]


def exchanges_asking(subject: Subject, *asked: Asked) -> Iterator[Exchange]:
    for turn in subject.conversation.turns:
        yield from (exchange for exchange in turn.exchanges if exchange.asked in asked)


def exchanges_by(subject: Subject, operation: Operation, asked: Asked) -> list[Exchange]:
    return [exchange for exchange in exchanges_asking(subject, asked) if exchange.operation is operation]


def asking_sightings(subject: Subject, *kinds: Kind) -> Iterator[tuple[Exchange, Sighting]]:
    """What was seen in answers that were asked for version 1."""
    for exchange in exchanges_asking(subject, *ASKING):
        yield from ((exchange, sighting) for sighting in sightings(exchange) if sighting.kind in kinds)


def has_calls(turn: Turn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges if exchange.asked in ASKING)


def messages_with_calls(subject: Subject) -> set[str]:
    """The messages that made the agent report tool calls, over any interface."""
    conversations = subject.record.conversations
    return {turn.message for item in conversations for turn in item.turns if has_calls(turn)}


def whole_task(exchange: Exchange, task_id: str) -> Event | None:
    """The event that shows the whole task, if there is one."""
    shown = (event for event in exchange.events if event.normal is not None and "task" in event.normal)
    return next((event for event in shown if task_id_of(event.normal or {}) == task_id), None)


def task_artifacts(event: Event) -> object:
    return {"artifacts": (event.normal or {})["task"].get("artifacts", [])}


def all_artifacts(exchange: Exchange) -> list[dict[str, Any]]:
    return [artifact for event in exchange.normal_events for artifact, _ in artifacts_in(event)]


def artifacts_in(event: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """The artifacts of an event, and whether each only adds to an earlier one."""
    task, update = event.get("task"), event.get("artifactUpdate")
    if isinstance(task, dict) and isinstance(task.get("artifacts"), list):
        yield from ((artifact, False) for artifact in task["artifacts"] if isinstance(artifact, dict))
    if isinstance(update, dict) and isinstance(update.get("artifact"), dict):
        yield update["artifact"], update.get("append") is True
