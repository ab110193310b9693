"""What an answer says: its A2A events, and every place where something of the extension is in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI, TaskMerger, ToolCall, places
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, is_capture_uri, requested_uris
from a2a_tool_capture.wire import SETTLED_STATES, normalize_event, normalize_state

from ...protocol.operations import Binding, Operation, decode_json
from .record import Asked, Event, Exchange, Interface, Request
from .requests import STREAMING

_SHOWN = 300
"""Characters of an agent's own words in an error."""


def answered(
    interface: Interface,
    operation: Operation,
    asked: Asked,
    request: Request,
    status: int,
    headers: Iterable[tuple[str, str]],
    documents: Iterable[bytes],
    problem: str = "",
) -> Exchange:
    """An exchange out of its bytes. `documents` are the body, or the data of each event of a stream.

    `problem` says how the exchange broke off, "" where it ended well. Never raises.
    """
    events: list[Event] = []
    for number, document in enumerate(documents):
        where = f"event {number + 1}: " if operation in STREAMING else ""
        found, error = _read(interface, operation, document, where)
        events += found
        if error:
            problem = problem or error
            break
    if status >= 400 and not problem:
        problem = "an error"
    if status >= 300:
        problem = f"HTTP {status}: {problem}" if problem else f"HTTP {status}"
    if not problem and operation is not Operation.LIST and not events:
        problem = "an empty answer"
    return Exchange(operation, asked, request, status, tuple(headers), tuple(events), problem)


def _read(interface: Interface, operation: Operation, document: bytes, where: str) -> tuple[list[Event], str]:
    try:
        payload = decode_json(document)
    except ValueError:
        return [], f"not JSON: {document[:_SHOWN].decode(errors='replace')!r}"
    if isinstance(payload, dict) and payload.get("error") is not None:
        error = payload["error"]
        message = error.get("message") if isinstance(error, dict) else error
        code = error.get("code") if isinstance(error, dict) else ""
        return [Event(where, payload, None)], f"error {code}: {str(message)[:_SHOWN]}"
    if interface.binding is Binding.JSONRPC:
        payload = payload.get("result") if isinstance(payload, dict) else None
        where += "result"
    if operation is Operation.LIST:
        tasks = payload.get("tasks") if isinstance(payload, dict) else None
        if not isinstance(tasks, list):
            return [], "neither a list of tasks nor an error"
        prefix = f"{where}." if where and not where.endswith(" ") else where
        return [Event(f"{prefix}tasks[{i}]", task, normalize_event(task)) for i, task in enumerate(tasks)], ""
    normal = normalize_event(payload)
    if normal is None:
        return [], "JSON, but neither a task, a message nor an update"
    return [Event(where, payload, normal)], ""


# ── the extension in an answer ──────────────────────────────────────────────────────────────────────────────


class Kind(Enum):
    CALLS = "tool calls of version 1 on an artifact"
    LISTED = "a URI of the extension in an artifact's `extensions`"
    OTHER_KEY = "another metadata key of the extension on an artifact"
    LISTED_ASIDE = "a URI of the extension in `extensions` of what is no artifact"
    MISPLACED = "a metadata key of the extension that is not an artifact's"
    HEADER = "a URI of the extension in a response header"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One place where something of the extension is. `name` is the URI or metadata key, `value` what it is for."""

    kind: Kind
    where: str
    name: str
    value: Any
    artifact: dict[str, Any] | None = None
    """The artifact it is on."""

    @property
    def of_v1(self) -> bool:
        return self.name == URI or self.name.startswith(f"{URI}/")


def sightings(exchange: Exchange) -> Iterator[Sighting]:
    """Everything of the extension in the answer, in its order; never raises, at any nesting."""
    for name, value in exchange.headers:
        if name.lower() in (EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower()):
            yield from (
                Sighting(Kind.HEADER, f"response header {name}", uri, value)
                for uri in requested_uris([value])
                if is_capture_uri(uri)
            )
    for event in exchange.events:
        yield from _in_value(event.raw, event.where)


def _in_value(root: Any, where: str) -> Iterator[Sighting]:
    """Depth first, without recursion, over what `places` lists; names of the extension are looked for everywhere.

    `owner` is the artifact whose metadata or extensions are looked at.
    """
    stack: list[tuple[Any, str, str, Any]] = [(root, where, "", None)]
    while stack:
        value, path, role, owner = stack.pop()
        children: list[tuple[Any, str, str, Any]] = []
        if isinstance(value, dict):
            for key, item in value.items():
                shown = f"[{key!r}]" if is_capture_uri(key) else f".{key}" if path[-1:] not in ("", " ") else key
                if is_capture_uri(key):
                    yield Sighting(_kind(key, role, owner), path + shown, key, item, owner)
                    continue
                inner = _role(key, role)
                if inner == places.EXTENSIONS and _is_the_users(value):
                    inner = _CONTENT  # the client's own words, repeated
                children.append((item, path + shown, inner, value if role == "artifact" else None))
        elif isinstance(value, list):
            if role == places.EXTENSIONS:
                listed = [uri for uri in value if is_capture_uri(uri)]
                kind = Kind.LISTED_ASIDE if owner is None else Kind.LISTED
                yield from (Sighting(kind, path, uri, value, owner) for uri in listed)
            inner = "artifact" if role == "artifacts" else role
            children += [(item, f"{path}[{i}]", inner, None) for i, item in enumerate(value)]
        stack += reversed(children)


_CONTENT = "content"
"""The role of what is none of the protocol's."""


def _role(key: str, parent: str) -> str:
    if parent in (_CONTENT, places.METADATA, places.EXTENSIONS):
        return _CONTENT
    if key in (places.METADATA, places.EXTENSIONS, "artifacts", "artifact", "error"):
        return key
    if key == "data" and parent != "error":
        return _CONTENT
    return "error" if parent == "error" and places.leads_on(key, in_error=True) else ""


def _is_the_users(message: dict[str, Any]) -> bool:
    return message.get("role") in ("user", "ROLE_USER")


def _kind(key: str, role: str, artifact: object) -> Kind:
    if role != places.METADATA or artifact is None:
        return Kind.MISPLACED
    return Kind.CALLS if key == METADATA_KEY else Kind.OTHER_KEY


# ── tasks and their calls ───────────────────────────────────────────────────────────────────────────────────


def task_id_of(event: dict[str, Any]) -> str:
    """Id of the task an event (1.0 shape) tells about; "" for a Message or junk."""
    task = event.get("task")
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    value = task.get("id") if isinstance(task, dict) else update.get("taskId") if isinstance(update, dict) else ""
    return value if isinstance(value, str) else ""


def context_id_of(event: dict[str, Any]) -> str:
    """`contextId` of whatever the event holds; "" without."""
    for payload in event.values():
        if isinstance(payload, dict) and isinstance(payload.get("contextId"), str):
            value: str = payload["contextId"]
            return value
    return ""


def state_of(event: dict[str, Any]) -> str | None:
    """The task's state in 1.0 names, if the event tells it."""
    holder = event.get("task") or event.get("statusUpdate")
    status = holder.get("status") if isinstance(holder, dict) else None
    return normalize_state(status.get("state")) if isinstance(status, dict) else None


def is_settled(event: dict[str, Any]) -> bool:
    """Whether the agent has done what it will do for this message: a Message, or a terminal or waiting task."""
    return "message" in event or state_of(event) in SETTLED_STATES


def first_task_id(exchange: Exchange) -> str:
    """Id of the task the answer is about; "" where it tells none."""
    return next((task_id for event in exchange.normal_events if (task_id := task_id_of(event))), "")


def settled(exchange: Exchange) -> bool:
    """Whether the answer goes as far as the agent went."""
    return any(is_settled(event) for event in exchange.normal_events)


def only_message(exchange: Exchange) -> bool:
    """Whether the agent answered with a Message, which has no artifact to carry calls."""
    events = list(exchange.normal_events)
    return bool(events) and all("message" in event for event in events)


def entries(exchange: Exchange) -> list[Any]:
    """All entries of all call lists on artifacts, readable or not."""
    return [entry for event in exchange.events for entry in entries_in(event)]


def entries_in(event: Event) -> list[Any]:
    """As `entries`, of one event."""
    return [
        entry
        for sighting in _in_value(event.raw, "")
        if sighting.kind is Kind.CALLS and isinstance(sighting.value, list)
        for entry in sighting.value
    ]


def calls_lost(exchange: Exchange, later: Event) -> int:
    """How many calls that `exchange` told are missing in the whole task that `later` shows."""
    merger = TaskMerger(require_artifact_uri=False)
    for event in (*exchange.normal_events, later.normal or {}):
        merger.feed(event)
    return sum(finding.code == "dropped_by_snapshot" for finding in merger.findings)


def calls_of(exchange: Exchange) -> list[ToolCall]:
    """The calls as a reader merges them, whether artifacts list the URI or not (that is a rule of its own)."""
    merger = TaskMerger(require_artifact_uri=False)
    for event in exchange.normal_events:
        merger.feed(event)
    return merger.tool_calls


def tasks_after_calls(exchange: Exchange) -> Iterator[tuple[Event, int, int]]:
    """Each Task in a stream that comes after calls: how many calls there were before it, and how many it lacks."""
    merger = TaskMerger(require_artifact_uri=False)
    lost_before = 0
    for event in exchange.events:
        if event.normal is None:
            continue
        calls = len(merger.tool_calls)
        merger.feed(event.normal)
        if "task" in event.normal and calls:
            lost = sum(finding.code == "dropped_by_snapshot" for finding in merger.findings)
            yield event, calls, lost - lost_before
            lost_before = lost
