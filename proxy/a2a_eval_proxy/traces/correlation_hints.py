"""What a trace says of the conversation, task and turn it belongs to, and whether the agent is done with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from a2a_tool_capture.spans.literals import is_placeholder
from a2a_tool_capture.spans.model import Span

HINTS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "gen_ai.conversation.id",
            "session.id",
            "langsmith.metadata.thread_id",
            "langsmith.metadata.session_id",
            "langsmith.metadata.conversation_id",
            "traceloop.association.properties.thread_id",
            "traceloop.association.properties.session_id",
            "traceloop.association.properties.conversation_id",
            "traceloop.association.properties.chat_id",
            "langfuse.session.id",
            "ai.telemetry.metadata.sessionId",
            "gcp.vertex.agent.session_id",
            "a2a.context.id",
            "a2a.context_id",
            "arksim.conversation_id",
        ),
        "conversation_id",
    ),
    **dict.fromkeys(("a2a.task.id", "a2a.task_id"), "task_id"),
}
"""Attribute of a span or of its resource, and the field of a turn that it names.

Conversation is whatever the agent's libraries call conversation, session, thread or (A2A) context: the GenAI
conventions ask for the A2A contextId, but many put an id of their own.
"""

Key = tuple[str, str]
"""The name of a field of a turn, `trace_id`, `task_id` or `conversation_id`, and its value."""


def keys_named(spans: Sequence[Span], known: Mapping[str, str] = HINTS) -> set[Key]:
    """The ids in the attributes `known` of `spans` and their resources.

    An id is often on one span of a trace only, an ancestor of the tool spans or a sibling: any span is asked.
    Blank ids, placeholders, and ids that are neither strings nor numbers do not count.
    """
    found = set()
    resources = {id(span.resource): span.resource for span in spans}
    for attributes in (*(span.attributes for span in spans), *resources.values()):
        for name in attributes.keys() & known.keys():
            value = attributes[name]
            text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
            if text and not is_placeholder(text):
                found.add((known[name], text))
    return found


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
    return span.enters_process
