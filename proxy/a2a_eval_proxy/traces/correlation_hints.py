"""What a trace says of the conversation, task and turn it belongs to, and whether the agent is done with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from .literals import is_placeholder
from .model import KIND_SERVER, Attributes, Span

HINTS: Mapping[str, str] = {
    "gen_ai.conversation.id": "conversation_ids",
    "session.id": "conversation_ids",
    "langsmith.metadata.thread_id": "conversation_ids",
    "langsmith.metadata.session_id": "conversation_ids",
    "langsmith.metadata.conversation_id": "conversation_ids",
    "traceloop.association.properties.thread_id": "conversation_ids",
    "traceloop.association.properties.session_id": "conversation_ids",
    "traceloop.association.properties.conversation_id": "conversation_ids",
    "traceloop.association.properties.chat_id": "conversation_ids",
    "langfuse.session.id": "conversation_ids",
    "ai.telemetry.metadata.sessionId": "conversation_ids",
    "gcp.vertex.agent.session_id": "conversation_ids",
    "a2a.context.id": "conversation_ids",
    "a2a.context_id": "conversation_ids",
    "arksim.conversation_id": "conversation_ids",
    "a2a.task.id": "task_ids",
    "a2a.task_id": "task_ids",
    "a2a.message.id": "message_ids",
    "a2a.message_id": "message_ids",
    "arksim.turn_id": "turn_ids",
}
"""Attribute of a span or of its resource, and the field of `Hints` it fills."""


@dataclass(frozen=True, slots=True)
class Hints:
    """The ids that spans bear, each field sorted and without repeats; mostly none or one.

    `conversation_ids` are whatever the agent's libraries call conversation, session, thread or (A2A) context: the
    GenAI conventions ask for the A2A contextId, but many put an id of their own.
    """

    conversation_ids: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    turn_ids: tuple[str, ...] = ()


def correlation_hints(spans: Iterable[Span]) -> dict[str, Hints]:
    """The hints of each trace that has a span among `spans`, by trace id."""
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    return {trace_id: hints_of(members) for trace_id, members in by_trace.items()}


def hints_of(spans: Iterable[Span], known: Mapping[str, str] = HINTS) -> Hints:
    """The hints of one trace, by the attributes in `known`.

    An id is often on one span of a trace only, an ancestor of the tool spans or a sibling: any span is asked.
    Blank ids, placeholders, and ids that are neither strings nor numbers do not count.
    """
    found: dict[str, set[str]] = defaultdict(set)
    resources: dict[int, Attributes] = {}
    for span in spans:
        resources[id(span.resource)] = span.resource
        _gather(span.attributes, known, found)
    for resource in resources.values():
        _gather(resource, known, found)
    return Hints(**{field: tuple(sorted(values)) for field, values in found.items()})


def root_ended(spans: Iterable[Span], parents: Collection[str] = ()) -> bool:
    """Whether the agent's outermost span of every trace is among `spans`, and all between it and the others.

    Then they are complete. False without spans. Spans are exported when they end, children before parents, so a
    span whose local parent is missing is early: the parent still runs, perhaps for longer than the outermost
    span (a request handler that hands the work to a task and returns).

    `parents` are the span ids the agent was given as its parent (by `traceparent`); with them, the outermost span is
    one that has such a parent or none. Without, it is one that has none, one whose parent is remote and not at hand,
    or, where the exporter does not mark remote parents, a server's span whose parent is missing.
    """
    at_hand: dict[str, set[str]] = defaultdict(set)
    members = list(spans)
    for span in members:
        at_hand[span.trace_id].add(span.span_id)
    ended: set[str] = set()
    for span in members:
        if _is_outermost(span, parents, at_hand[span.trace_id]):
            ended.add(span.trace_id)
        elif span.parent_span_id not in at_hand[span.trace_id] and not span.parent_is_remote:
            return False
    return bool(at_hand) and ended == at_hand.keys()


def _is_outermost(span: Span, parents: Collection[str], at_hand: Collection[str]) -> bool:
    parent = span.parent_span_id
    if not parent or parent in parents:
        return True
    if parents or parent in at_hand:
        return False
    return span.kind == KIND_SERVER if span.parent_is_remote is None else span.parent_is_remote


def _gather(attributes: Attributes, known: Mapping[str, str], found: dict[str, set[str]]) -> None:
    for key in attributes.keys() & known.keys():
        value = attributes[key]
        text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if text and not is_placeholder(text):
            found[known[key]].add(text)
