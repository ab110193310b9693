"""Normalizes A2A 0.3 and 1.0 events to the 1.0 `StreamResponse` as ProtoJSON. Functions never raise.

Three forms are on the wire. 1.0 (JSON-RPC and HTTP+JSON): `{"task": ..}`, `{"statusUpdate": ..}` ...,
states as `TASK_STATE_COMPLETED`; GetTask and CancelTask answer with a bare Task. 0.3 JSON-RPC: a flat object with
`kind`, states as `completed`. 0.3 HTTP+JSON: the nested 1.0 names, but message parts under `content`. ProtoJSON
also allows the proto field names (`task_id`), which every reader must accept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")
"""Protocol bindings of `CaptureClient`, as agent cards name them."""

FAILED_STATES = ("TASK_STATE_FAILED", "TASK_STATE_REJECTED", "TASK_STATE_CANCELED")
TERMINAL_STATES = frozenset({"TASK_STATE_COMPLETED", *FAILED_STATES})
INTERRUPTED_STATES = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
SETTLED_STATES = TERMINAL_STATES | INTERRUPTED_STATES
"""States in which the agent has finished its work for this message (A2A 1.0, section 4.1.3)."""

TASK_STATES = SETTLED_STATES | {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_UNSPECIFIED"}
"""All states of A2A; agents may send others."""

EVENT_KEYS = ("artifactUpdate", "statusUpdate", "task", "message")

_INT64_DIGITS = 19

UNREAD_KEY = "\x00unread"
"""The key of `unread_event`."""

UNKNOWN_EVENT = "unknown_event"
"""The finding of an event of a kind that only later versions of A2A have."""

_NAMES, _NAME_CHARS = 3, 50
"""What its message repeats of the event."""

_PROTO_EVENT_KEYS = {"artifact_update": "artifactUpdate", "status_update": "statusUpdate"}
_PROTO_KEYS = {
    "task_id": "taskId",
    "context_id": "contextId",
    "message_id": "messageId",
    "artifact_id": "artifactId",
    "last_chunk": "lastChunk",
}

_KIND_TO_KEY = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}


_EVENT_NAMES = frozenset({*EVENT_KEYS, *_PROTO_EVENT_KEYS})


def received_event(payload: Any, *, in_envelope: bool, in_stream: bool) -> dict[str, Any]:
    """The 1.0 event in what an agent sent, which is no `rpc_error`; without one `unread_event`.

    `in_envelope`: it is the `result` of JSON-RPC. `in_stream`: it may be of a kind that later versions of A2A have.
    """
    if in_envelope and isinstance(payload, dict):
        payload = payload.get("result")
    event = normalize_event(payload)
    if event is not None:
        return event
    if in_stream and isinstance(payload, dict) and payload and _EVENT_NAMES.isdisjoint(payload):
        names = ", ".join(repr(name[:_NAME_CHARS]) for name in list(payload)[:_NAMES])
        message = f"an event of a kind that is not known: {names}"
        generation = max([generation_of(value) for value in payload.values() if isinstance(value, dict)], default=0)
        return unread_event(UNKNOWN_EVENT, message, generation=generation, payload=payload)
    message = "JSON, but neither a task, a message nor an update"
    return unread_event("malformed_response", message, payload=payload)


def unknown_fields(encoded: bytes) -> dict[str, Any]:
    """Stands for the JSON of a protobuf message, encoded, whose schema has none of its fields."""
    return {"fields without a name": encoded.decode("utf-8", "replace")} if encoded else {}


def unread_event(code: str, message: str, *, generation: int = 0, payload: Any = None) -> dict[str, Any]:
    """Stands for an event that could not be read: the code and the message of the finding.

    `generation`: that of the task, which it shows; 0: it shows none. `payload`: what it has, as far as that is JSON.
    """
    return {UNREAD_KEY: {"code": code, "message": message, "generation": generation, "payload": payload}}


def rpc_error(payload: Any) -> Any:
    """The error that an agent sent in place of an event, over JSON-RPC or HTTP+JSON; None if it sent none."""
    return payload.get("error") if isinstance(payload, dict) else None


def normalize_event(payload: Any) -> dict[str, Any] | None:
    """The 1.0 event in a JSON-RPC `result` or an HTTP+JSON body; None without one.

    An event in 1.0 form is returned unchanged, not copied, but for names that begin with U+0000: these are ours.
    """
    if not isinstance(payload, dict):
        return None
    if not payload.keys().isdisjoint(_PROTO_EVENT_KEYS):
        payload = {_PROTO_EVENT_KEYS.get(key, key): value for key, value in payload.items()}
    for key in EVENT_KEYS:
        inner = payload.get(key)
        if isinstance(inner, dict):
            if _is_legacy(key, inner):
                return {key: _normal(key, inner)}
            return payload if len(payload) == 1 else {name: payload[name] for name in payload if name[:1] != "\0"}
    kind = payload.get("kind")
    if isinstance(kind, str) and kind in _KIND_TO_KEY:
        key = _KIND_TO_KEY[kind]
        return {key: _normal(key, payload)}
    if isinstance(payload.get("status"), dict) and isinstance(payload.get("id"), str):
        return {"task": _normal("task", payload) if _is_legacy("task", payload) else payload}
    if isinstance(payload.get("messageId") or payload.get("message_id"), str):
        return {"message": _normal("message", payload) if _is_legacy("message", payload) else payload}
    return None


def normalize_state(state: Any) -> str | None:
    """`completed` and `input-required` (0.3) as `TASK_STATE_COMPLETED` and `TASK_STATE_INPUT_REQUIRED`."""
    if not isinstance(state, str) or not state:
        return None
    if not state.startswith("TASK_STATE_"):
        state = "TASK_STATE_" + state.upper().replace("-", "_")
    return "TASK_STATE_CANCELED" if state == "TASK_STATE_CANCELLED" else state  # the proto of 0.3 spells it with two Ls


def parts_text(holder: Any) -> str:
    """The text parts of a Message or Artifact (either version), concatenated."""
    if not isinstance(holder, dict):
        return ""
    parts = holder.get("parts")
    if parts is None:
        parts = holder.get("content")
    if not isinstance(parts, list):
        return ""
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def generation_of(holder: Mapping[str, Any]) -> int:
    """The generation (A2A 1.1) of a Task or an update; 0 without one. ProtoJSON has integers of 64 bits as strings."""
    value = holder.get("generation")
    if value is None:
        return 0
    if isinstance(value, str) and len(value) <= _INT64_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63 else 0


def answer_in_history(task: Mapping[str, Any]) -> str:
    """The text of the agent's latest message after the user's latest one in a Task's timeline (A2A 1.1) or history.

    "" without any. Entries of unknown kinds are skipped, as the protocol demands.
    """
    history = task.get("history")
    entries = timeline_of(task)
    if "timeline" not in task and isinstance(history, list):
        entries = [{"message": message} for message in history]
    for entry in reversed(entries):
        status, message = entry.get("status"), entry.get("message")
        if is_from_user(message):
            break
        if text := parts_text(message) or parts_text(status.get("message") if isinstance(status, dict) else None):
            return text
    return ""


def timeline_of(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries of the timeline (A2A 1.1) of a Task, oldest first; [] without one."""
    timeline = task.get("timeline")
    return [entry for entry in timeline if isinstance(entry, dict)] if isinstance(timeline, list) else []


def is_from_user(message: Any) -> bool:
    """Whether it is a Message of the user, in either version."""
    return isinstance(message, dict) and str(message.get("role")).upper().endswith("USER")


def camel_keys(value: dict[str, Any]) -> dict[str, Any]:
    """`value` with proto field names in camel case; the same object if it has none."""
    if value.keys().isdisjoint(_PROTO_KEYS):
        return value
    return {_PROTO_KEYS.get(key, key): item for key, item in value.items()}


def _is_legacy(key: str, inner: dict[str, Any]) -> bool:
    if not inner.keys().isdisjoint(_PROTO_KEYS):
        return True
    if key == "message":
        return "content" in inner
    status = inner.get("status")
    if not isinstance(status, dict):
        return False
    state, message = status.get("state"), status.get("message")
    if isinstance(message, dict) and "content" in message:
        return True
    return isinstance(state, str) and state not in TASK_STATES and normalize_state(state) not in (state, None)


def _normal(key: str, inner: dict[str, Any]) -> dict[str, Any]:
    """`inner` with 1.0 names: no `kind`, message parts under `parts`, full state names."""
    if key == "message":
        return _normal_message(inner)
    out = {name: value for name, value in camel_keys(inner).items() if name not in ("kind", "final")}
    for name, normal in _NORMAL.items():
        held = out.get(name)
        if isinstance(held, list):
            out[name] = [normal(item) if isinstance(item, dict) else item for item in held]
        elif isinstance(held, dict):
            out[name] = normal(held)
    return out


def _normal_status(status: dict[str, Any]) -> dict[str, Any]:
    message, state = status.get("message"), normalize_state(status.get("state"))
    return {
        **status,
        **({} if state is None else {"state": state}),
        **({"message": _normal_message(message)} if isinstance(message, dict) else {}),
    }


def _normal_message(message: dict[str, Any]) -> dict[str, Any]:
    out = {name: value for name, value in camel_keys(message).items() if name != "kind"}
    if "content" in out and "parts" not in out:
        out["parts"] = out.pop("content")
    role = out.get("role")
    if role in ("user", "agent"):
        out["role"] = f"ROLE_{role.upper()}"
    return out


_NORMAL: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "artifact": camel_keys,
    "artifacts": camel_keys,
    "status": _normal_status,
    "history": _normal_message,
}
"""How the members of a task or an update get names of 1.0."""
