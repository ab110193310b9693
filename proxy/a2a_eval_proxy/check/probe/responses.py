"""Reads answers: their A2A events, and every occurrence of the extension in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI, TaskMerger, ToolCall, places
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, is_capture_uri, requested_uris
from a2a_tool_capture.wire import SETTLED_STATES, normalize_event, normalize_state

from ...protocol.operations import Operation, decode_json
from .record import OperationRequest, ProbeExchange, ResponseEvent
from .requests import STREAMING

_MAX_AGENT_TEXT_CHARS = 300
"""Maximum number of characters of an agent's error text in a report."""


def read_response(
    request: OperationRequest,
    status: int,
    headers: Iterable[tuple[str, str]],
    documents: Iterable[bytes],
    problem: str = "",
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
    if not problem and request.operation not in (Operation.LIST, Operation.PUSH_CONFIG) and not events:
        problem = "an empty answer"
    return ProbeExchange(request, status, tuple(headers), tuple(events), problem)


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
    if request.operation is Operation.PUSH_CONFIG or (
        request.operation is Operation.EXTENDED_CARD and isinstance(payload, dict)
    ):
        return [ResponseEvent(where, payload, None)], ""
    if normal is None:
        return [], "JSON, but neither a task, a message nor an update"
    return [ResponseEvent(where, payload, normal)], ""


# ── the extension in an answer ──────────────────────────────────────────────────────────────────────────────


class Kind(Enum):
    CALLS = "tool calls of version 1 on an artifact"
    LISTED = "a URI of the extension in an artifact's `extensions`"
    OTHER_KEY = "another metadata key of the extension on an artifact"
    LISTED_ELSEWHERE = "a URI of the extension in `extensions` of an object that is not an artifact"
    MISPLACED = "a metadata key of the extension outside an artifact's metadata"
    HEADER = "a URI of the extension in a response header"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of the extension. `name` is the URI or metadata key, `value` the value that holds it."""

    kind: Kind
    where: str
    name: str
    value: Any
    artifact: dict[str, Any] | None = None
    """The artifact that carries it."""

    @property
    def entries(self) -> list[Any]:
        """The entries of a call list on an artifact; [] for any other occurrence."""
        return self.value if self.kind is Kind.CALLS and isinstance(self.value, list) else []

    @property
    def of_v1(self) -> bool:
        return self.name == URI or self.name.startswith(f"{URI}/")


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
        yield from occurrences_in(event.raw, event.where)


def occurrences_in(root: Any, where: str) -> Iterator[Occurrence]:
    """Yields every occurrence in a JSON value. Never raises.

    Walks depth first, without recursion. `places` defines the roles; keys of the extension count everywhere.

    `owner` is the artifact that holds the current metadata or extensions.
    """
    stack: list[tuple[Any, str, str, Any]] = [(root, where, "", None)]
    while stack:
        value, path, role, owner = stack.pop()
        children: list[tuple[Any, str, str, Any]] = []
        if isinstance(value, dict):
            for key, item in value.items():
                shown = f"[{key!r}]" if is_capture_uri(key) else f".{key}" if path[-1:] not in ("", " ") else key
                if is_capture_uri(key):
                    yield Occurrence(_kind(key, role, owner), path + shown, key, item, owner)
                    continue
                inner = _role(key, role)
                if inner == places.EXTENSIONS and _is_user_message(value):
                    inner = _CONTENT  # the client's message, echoed
                children.append((item, path + shown, inner, value if role == "artifact" else None))
        elif isinstance(value, list):
            if role == places.EXTENSIONS:
                listed = [uri for uri in value if is_capture_uri(uri)]
                kind = Kind.LISTED_ELSEWHERE if owner is None else Kind.LISTED
                yield from (Occurrence(kind, path, uri, value, owner) for uri in listed)
            inner = "artifact" if role == "artifacts" else role
            children += [(item, f"{path}[{i}]", inner, None) for i, item in enumerate(value)]
        stack += reversed(children)


_CONTENT = "content"
"""The role of values that the protocol does not define."""


def _role(key: str, parent: str) -> str:
    if parent in (_CONTENT, places.METADATA, places.EXTENSIONS):
        return _CONTENT
    if key in (places.METADATA, places.EXTENSIONS, "artifacts", "artifact", "error"):
        return key
    if key == "data" and parent != "error":
        return _CONTENT
    return "error" if parent == "error" and places.leads_on(key, in_error=True) else ""


def _is_user_message(message: dict[str, Any]) -> bool:
    return message.get("role") in ("user", "ROLE_USER")


def _kind(key: str, role: str, artifact: object) -> Kind:
    if role != places.METADATA or artifact is None:
        return Kind.MISPLACED
    return Kind.CALLS if key == METADATA_KEY else Kind.OTHER_KEY


# ── tasks and their calls ───────────────────────────────────────────────────────────────────────────────────


def task_id_of(event: dict[str, Any]) -> str:
    """Returns the task id of an event in A2A 1.0 form; "" for a Message or an unknown object."""
    task = event.get("task")
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    value = task.get("id") if isinstance(task, dict) else update.get("taskId") if isinstance(update, dict) else ""
    return value if isinstance(value, str) else ""


def context_id_of(event: dict[str, Any]) -> str:
    """Returns the `contextId` of the event; "" without one."""
    values = (payload.get("contextId") for payload in event.values() if isinstance(payload, dict))
    return next((value for value in values if isinstance(value, str)), "")


def state_of(event: dict[str, Any]) -> str | None:
    """Returns the task's state by its A2A 1.0 name, or None if the event has no state."""
    holder = event.get("task") or event.get("statusUpdate")
    status = holder.get("status") if isinstance(holder, dict) else None
    return normalize_state(status.get("state")) if isinstance(status, dict) else None


def is_settled(event: dict[str, Any]) -> bool:
    """Whether the agent finished this message: the event is a Message, or its task is terminal or waits for input."""
    return "message" in event or state_of(event) in SETTLED_STATES


def first_task_id(exchange: ProbeExchange) -> str:
    """Returns the first task id in the answer; "" without one."""
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
    """Returns the entries of one event, as `entries` does."""
    return [entry for occurrence in occurrences_in(event.raw, "") for entry in occurrence.entries]


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
