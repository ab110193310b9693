"""Reads notifications: which event they show, and in which form. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.json_depth import WALKED, too_deep
from a2a_tool_capture.wire import EVENT_KEYS, normalize_event

from ...protocol.operations import decode_json
from .record import NotificationSeen


@dataclass(frozen=True, slots=True)
class Payload:
    """The body of a notification. `form` describes it; `event` is its A2A 1.0 form, None if it shows no event."""

    raw: Any
    form: str
    event: dict[str, Any] | None = None
    is_current: bool = False
    """Whether it is a StreamResponse of A2A 1.0 ..."""
    is_legacy: bool = False
    """... or an object of A2A 0.3."""


def identity(event: dict[str, Any]) -> str:
    """Returns a text that equal events share. Never raises."""
    return "nested too deeply" if too_deep(event, WALKED) else canonical(event)


def payload_of(notification: NotificationSeen) -> Payload:
    """Returns the notification, read. Never raises."""
    body = notification.request.body
    try:
        raw = decode_json(body)
    except ValueError:
        return Payload(body[:300].decode(errors="replace"), "not JSON")
    if not isinstance(raw, dict):
        return Payload(raw, "not an object")
    event = normalize_event(raw)
    members = [key for key in EVENT_KEYS if key in raw]
    if len(members) == 1:
        return Payload(raw, f"StreamResponse with {members[0]}", event, is_current=event is not None)
    if members:
        return Payload(raw, f"StreamResponse with {' and '.join(members)}", event)
    if "jsonrpc" in raw:
        return Payload(raw, "JSON-RPC message", normalize_event(raw.get("result")))
    if isinstance(raw.get("kind"), str) and event is not None:
        return Payload(raw, f"{raw['kind']} of A2A 0.3", event, is_legacy=True)
    if event is not None:
        (key,) = (key for key in EVENT_KEYS if key in event)
        return Payload(raw, f"{key} without the object around it", event, is_legacy=key == "task")
    return Payload(raw, "object without an event")
