"""What an agent sent, read: one event of a stream, or a whole answer. Pure; never raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from a2a_tool_capture.wire import normalize_event, received_event, rpc_error

from ..memory import of_json
from .operations import A2ARequest, Binding, Operation, decode_json


class ReadAnswer(NamedTuple):
    """One event of a stream, or a whole answer, to a request of A2A."""

    data: bytes
    """As JSON; b"" for a comment of a stream."""
    event: dict[str, Any] | None = None
    """The 1.0 event in it, of a kind that may be unknown; None where it has none: see the others."""
    error: Any = None
    """The error in place of an event."""
    listed: tuple[dict[str, Any], ...] = ()
    """The tasks of a list, as events."""
    problem: str = ""
    """Why it is no JSON."""
    size: int = 0
    """The most memory that it takes decoded."""
    task_ids: tuple[str, ...] = ()
    """The tasks that it shows."""


def read_answer(data: bytes, request: A2ARequest, *, in_stream: bool, payload: Any = None) -> ReadAnswer:
    """Read an answer to `request`. `payload`: the decoded data, where the caller has it."""
    if in_stream and not data:
        return ReadAnswer(data)
    if payload is None:
        try:
            payload = decode_json(data)
        except ValueError as error:
            return ReadAnswer(data, problem=str(error))
    refusal = rpc_error(payload)
    if refusal is not None:
        return ReadAnswer(data, error=refusal)
    in_envelope = request.binding is Binding.JSONRPC
    if request.operation is Operation.LIST:
        listed = tuple(_listed(payload, in_envelope=in_envelope))
        return ReadAnswer(
            data, listed=listed, size=of_json(data), task_ids=tuple(filter(None, map(task_id_of, listed)))
        )
    event = received_event(payload, in_envelope=in_envelope, in_stream=in_stream)
    task_id = task_id_of(event)
    return ReadAnswer(data, event, size=of_json(data), task_ids=(task_id,) if task_id else ())


def _listed(payload: Any, *, in_envelope: bool) -> Iterator[dict[str, Any]]:
    if in_envelope and isinstance(payload, dict):
        payload = payload.get("result")
    tasks = payload.get("tasks") if isinstance(payload, dict) else None
    for task in tasks if isinstance(tasks, list) else ():
        event = normalize_event(task)
        if event is not None and "task" in event:
            yield event


def task_id_of(event: Mapping[str, Any]) -> str:
    """The id of the task that a v1.0 event is about; "" for none."""
    task = event.get("task")
    if isinstance(task, dict):
        task_id = task.get("id")
    else:
        for key in ("artifactUpdate", "statusUpdate", "message"):
            inner = event.get(key)
            if isinstance(inner, dict):
                task_id = inner.get("taskId")
                break
        else:
            return ""
    return task_id if isinstance(task_id, str) else ""


def state_of(event: Mapping[str, Any]) -> str:
    """The state of the task in a v1.0 event; "" where it shows none."""
    holder = event.get("task") or event.get("statusUpdate")
    status = holder.get("status") if isinstance(holder, dict) else None
    state = status.get("state") if isinstance(status, dict) else None
    return state if isinstance(state, str) else ""


def conversation_of(event: Mapping[str, Any]) -> str:
    """The id of the conversation that a v1.0 event names; "" for none."""
    for inner in event.values():
        if isinstance(inner, dict) and isinstance(found := inner.get("contextId"), str):
            return found
    return ""
