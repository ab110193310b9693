"""Removes the extension from messages of a2a-sdk servers."""

from __future__ import annotations

from typing import Any, overload

from a2a.server.events import Event
from a2a.types import Message, Task

from ..spec import BASE_URI
from . import sdk_compat
from .json_filter import without_calls


@overload
def without_tool_calls(event: Task) -> Task: ...


@overload
def without_tool_calls(event: Task | Message) -> Task | Message: ...


@overload
def without_tool_calls(event: Event) -> Event | None: ...


def without_tool_calls(event: Any) -> Any:
    """`event` as the agent would send it without the extension; the same object if it does not name the extension.

    None for an event about an artifact that exists only for its calls. The given event is not changed, because
    servers share events and stored tasks between clients. A page of ListTasks is filtered task by task.
    """
    if not sdk_compat.contains_text(event, BASE_URI):
        return event
    shown = without_calls(sdk_compat.as_json(event))
    return None if shown is None else sdk_compat.from_json(type(event), shown)
