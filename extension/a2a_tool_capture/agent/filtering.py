"""Removes the extension from messages of a2a-sdk servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from a2a.server.events import Event
from a2a.types import Message, Task, TaskArtifactUpdateEvent

from .. import places
from ..spec import is_capture_uri
from . import sdk_compat


@overload
def without_tool_calls(event: Task) -> Task: ...


@overload
def without_tool_calls(event: Task | Message) -> Task | Message: ...


@overload
def without_tool_calls(event: Event) -> Event | None: ...


def without_tool_calls(event: Any) -> Any:
    """`event` as the agent would send it without the extension; the same object if it has no tool calls.

    None for an event about an artifact that exists only for its calls. The given event is not changed, because
    servers share events and stored tasks between clients. A page of ListTasks is filtered task by task.
    """
    if not any(map(_carries, sdk_compat.holders(event))):
        return event
    if isinstance(event, TaskArtifactUpdateEvent):
        ends = event.append and event.last_chunk  # marks the client's artifact as complete
        if not ends and _exists_for_calls(event.artifact):
            return None
    shown = sdk_compat.copied(event)
    for task in [shown] if isinstance(shown, Task) else getattr(shown, "tasks", ()):
        for field in ("artifacts", "history"):
            _keep(task, field, lambda entry: not _exists_for_calls(entry))
    for holder in sdk_compat.holders(shown):
        if _carries(holder):
            _keep(holder, "extensions", lambda uri: not is_capture_uri(uri))
            keys = sdk_compat.metadata_keys(holder)
            sdk_compat.drop_metadata(holder, [key for key in keys if is_capture_uri(key)])
    return shown


def _keep(message: Any, field: str, wanted: Callable[[Any], bool]) -> None:
    """Keep only the `wanted` entries of a list."""
    entries = sdk_compat.entries(message, field)
    kept = list(filter(wanted, entries))
    if len(kept) < len(entries):
        sdk_compat.set_entries(message, field, kept)


def _carries(holder: Any) -> bool:
    return any(map(is_capture_uri, sdk_compat.entries(holder, "extensions"))) or any(
        map(is_capture_uri, sdk_compat.metadata_keys(holder))
    )


def _exists_for_calls(entry: Any) -> bool:
    return not sdk_compat.holds_text(entry) and places.exists_for_calls(sdk_compat.as_json(entry))
