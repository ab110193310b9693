"""Reads answers: their A2A events, and every occurrence of the extension in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from a2a_tool_capture import TaskMerger, ToolCall
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, is_capture_uri, requested_uris
from a2a_tool_capture.wire import SETTLED_STATES, TERMINAL_STATES, normalize_event

from ..protocol.answers import state_of
from ..protocol.operations import Operation, decode_json
from .record import Kind, Occurrence, OperationRequest, ProbeExchange, ResponseEvent
from .requests import STREAMING

_MAX_AGENT_TEXT_CHARS = 300
"""Maximum number of characters of an agent's error text in a report."""


def read_response(
    request: OperationRequest,
    status: int,
    headers: Iterable[tuple[str, str]],
    documents: Iterable[bytes],
    problem: str = "",
    grpc_status: str = "",
) -> ProbeExchange:
    """Returns the exchange read from its bytes. `documents` are the body, or the data of each event of a stream.

    `problem` describes how the exchange failed; "" if it completed. Never raises.
    """
    events: list[ResponseEvent] = []
    for number, document in enumerate(documents):
        where = f"event {number + 1}: " if request.operation in STREAMING else ""
        found, error = _read(request, document, where)
        events += found
        if error:
            problem = problem or error
            break
    if status >= 400 and not problem:
        problem = "an error"
    if status >= 300:
        problem = f"HTTP {status}: {problem}" if problem else f"HTTP {status}"
    if not problem and request.operation is not Operation.LIST and not events:
        problem = "an empty answer"
    return ProbeExchange(request, status, tuple(headers), tuple(events), problem, grpc_status)


def _read(request: OperationRequest, document: bytes, where: str) -> tuple[list[ResponseEvent], str]:
    try:
        payload = decode_json(document)
    except ValueError:
        return [], f"not JSON: {document[:_MAX_AGENT_TEXT_CHARS].decode(errors='replace')!r}"
    if isinstance(payload, dict) and payload.get("error") is not None:
        error = payload["error"]
        message = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else ""
        return [ResponseEvent(where, payload, None)], f"error {code}: {str(message)[:_MAX_AGENT_TEXT_CHARS]}"
    if request.interface.binding.has_envelope:
        payload = payload.get("result") if isinstance(payload, dict) else None
        where += "result"
    if request.operation is Operation.LIST:
        tasks = payload.get("tasks") if isinstance(payload, dict) else None
        if not isinstance(tasks, list):
            return [], "neither a list of tasks nor an error"
        prefix = f"{where}." if where and not where.endswith(" ") else where
        return [ResponseEvent(f"{prefix}tasks[{i}]", task, normalize_event(task)) for i, task in enumerate(tasks)], ""
    normal = normalize_event(payload)
    if request.operation is Operation.EXTENDED_CARD and isinstance(payload, dict):
        return [ResponseEvent(where, payload, None)], ""
    if normal is None:
        return [], "JSON, but neither a task, a message nor an update"
    return [ResponseEvent(where, payload, normal)], ""


# ── the extension in an answer ──────────────────────────────────────────────────────────────────────────────


def occurrences(exchange: ProbeExchange) -> Iterator[Occurrence]:
    """Yields every occurrence of the extension in the answer, in order. Never raises, whatever the nesting."""
    for name, value in exchange.headers:
        if name.lower() in (EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower()):
            yield from (
                Occurrence(Kind.HEADER, f"response header {name}", uri, value)
                for uri in requested_uris([value])
                if is_capture_uri(uri)
            )
    for event in exchange.events:
        yield from event.occurrences


# ── tasks and their calls ───────────────────────────────────────────────────────────────────────────────────


def task_id_of(event: dict[str, Any]) -> str:
    """Returns the task id of an event in A2A 1.0 form; "" for a Message or an unknown object."""
    task = event.get("task")
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    value = task.get("id") if isinstance(task, dict) else update.get("taskId") if isinstance(update, dict) else ""
    return value if isinstance(value, str) else ""


def states(*exchanges: ProbeExchange) -> list[str]:
    found = (state_of(event) for exchange in exchanges for event in exchange.normal_events)
    return [state for state in found if state]


def shows_end(*exchanges: ProbeExchange) -> bool:
    """Whether an answer shows a task in a terminal state."""
    return not TERMINAL_STATES.isdisjoint(states(*exchanges))


def is_settled(event: dict[str, Any]) -> bool:
    """Whether the agent finished this message: the event is a Message, or its task is terminal or waits for input."""
    return "message" in event or state_of(event) in SETTLED_STATES


def first_task_id(exchange: ProbeExchange) -> str:
    return next((task_id for event in exchange.normal_events if (task_id := task_id_of(event))), "")


def settled(exchange: ProbeExchange) -> bool:
    """Whether the answer shows that the agent finished the message."""
    return any(is_settled(event) for event in exchange.normal_events)


def only_message(exchange: ProbeExchange) -> bool:
    """Whether the answer is a Message, which has no artifact to carry calls."""
    events = list(exchange.normal_events)
    return bool(events) and all("message" in event for event in events)


def entries(exchange: ProbeExchange) -> list[Any]:
    """Returns the entries of all call lists on artifacts, valid or not."""
    return [entry for event in exchange.events for entry in entries_in(event)]


def entries_in(event: ResponseEvent) -> list[Any]:
    return [entry for occurrence in event.occurrences for entry in occurrence.entries]


def calls_lost(exchange: ProbeExchange, later: ResponseEvent) -> int:
    """Returns the number of calls in `exchange` that are missing in the whole task of `later`."""
    return _lost(_merged(*exchange.normal_events, later.normal or {}))


def calls_of(exchange: ProbeExchange) -> list[ToolCall]:
    """Returns the merged calls, whether artifacts list the URI or not (another rule checks that)."""
    return _merged(*exchange.normal_events).tool_calls


def _merged(*events: dict[str, Any]) -> TaskMerger:
    merger = TaskMerger(require_artifact_uri=False)
    for event in events:
        merger.feed(event)
    return merger


def _lost(merger: TaskMerger) -> int:
    return sum(finding.code == "dropped_by_snapshot" for finding in merger.findings)


def tasks_after_calls(exchange: ProbeExchange) -> Iterator[tuple[ResponseEvent, int, int]]:
    """Yields each Task in a stream after calls, the number of calls before it, and the number that it lacks."""
    merger = _merged()
    lost_before = 0
    for event in exchange.events:
        if event.normal is None:
            continue
        calls = len(merger.tool_calls)
        merger.feed(event.normal)
        if "task" in event.normal and calls:
            lost = _lost(merger)
            yield event, calls, lost - lost_before
            lost_before = lost
