"""Removes the extension from messages of a2a-sdk servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from a2a.server.events import Event
from a2a.types import Message, Task, TaskArtifactUpdateEvent

from .. import places
from ..spec import is_capture_uri
from . import sdk_compat

if TYPE_CHECKING:
    from a2a.types import ListTasksResponse  # not in a2a-sdk 0.3


@overload
def without_tool_calls(event: Task) -> Task: ...


@overload
def without_tool_calls(event: Task | Message) -> Task | Message: ...


@overload
def without_tool_calls(event: Event) -> Event | None: ...


def without_tool_calls(event: Event) -> Event | None:
    """`event` as the agent would send it without the extension; the same object if it has no tool calls.

    None for an event about an artifact that exists only for its calls. The given event is not changed, because
    servers share events and stored tasks between clients.
    """
    if not any(map(_carries, sdk_compat.holders(event))):
        return event
    if isinstance(event, TaskArtifactUpdateEvent):
        ends = event.append and event.last_chunk  # marks the client's artifact as complete
        if not ends and _exists_for_calls(event.artifact):
            return None
    shown = sdk_compat.copied(event)
    _strip(shown)
    return shown


def tasks_without_tool_calls(page: ListTasksResponse) -> ListTasksResponse:
    """A ListTasks response without tool calls; the same object if it has none."""
    if not any(map(_carries, sdk_compat.holders(page))):
        return page
    shown = sdk_compat.copied(page)
    for task in shown.tasks:
        _strip(task)
    return shown


def _carries(holder: Any) -> bool:
    return any(map(is_capture_uri, sdk_compat.extensions_of(holder))) or any(
        map(is_capture_uri, sdk_compat.metadata_keys(holder))
    )


def _exists_for_calls(entry: Any) -> bool:
    return not sdk_compat.holds_text(entry) and places.exists_for_calls(sdk_compat.as_json(entry))


def _strip(message: Any) -> None:
    if isinstance(message, Task):
        sdk_compat.keep_entries(message, "artifacts", lambda artifact: not _exists_for_calls(artifact))
        sdk_compat.keep_entries(message, "history", lambda message: not _exists_for_calls(message))
    for holder in sdk_compat.holders(message):
        if _carries(holder):
            sdk_compat.set_extensions(
                holder, [uri for uri in sdk_compat.extensions_of(holder) if not is_capture_uri(uri)]
            )
            sdk_compat.drop_metadata(holder, [key for key in sdk_compat.metadata_keys(holder) if is_capture_uri(key)])
