"""Takes the extension out of what a2a-sdk servers answer to clients that did not ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from a2a.server.events import Event
from a2a.types import Artifact, Message, Task, TaskArtifactUpdateEvent

from . import sdk
from .spec import BASE_URI, OWN_ARTIFACT_PREFIX

if TYPE_CHECKING:
    from a2a.types import ListTasksResponse  # not in a2a-sdk 0.3


@overload
def without_tool_calls(event: Task) -> Task: ...


@overload
def without_tool_calls(event: Task | Message) -> Task | Message: ...


@overload
def without_tool_calls(event: Event) -> Event | None: ...


def without_tool_calls(event: Event) -> Event | None:
    """`event` as the agent would have sent it had nobody asked for tool calls; the same object if it has none.

    None for an event about an artifact that exists for its calls only. The one given is never changed: servers
    share events and stored tasks between clients.
    """
    match event:
        case TaskArtifactUpdateEvent():
            if not _carries(event.artifact):
                return event
            if _is_own(event.artifact):
                return None
            update = sdk.copied(event)
            _strip(update.artifact)
            return update
        case Task():
            if not any(map(_carries, sdk.artifacts_of(event))):
                return event
            task = sdk.copied(event)
            _strip_task(task)
            return task
    return event


def tasks_without_tool_calls(page: ListTasksResponse) -> ListTasksResponse:
    """A ListTasks answer whose tasks carry no tool calls; the same object if they carry none."""
    if not any(_carries(artifact) for task in page.tasks for artifact in task.artifacts):
        return page
    stripped = sdk.copied(page)
    for task in stripped.tasks:
        _strip_task(task)
    return stripped


def _carries(artifact: Artifact) -> bool:
    return any(map(_is_ours, sdk.extensions_of(artifact))) or any(map(_is_ours, sdk.metadata_keys(artifact)))


def _is_ours(name: str) -> bool:
    return name.startswith(f"{BASE_URI}/")


def _is_own(artifact: Artifact) -> bool:
    return artifact.artifact_id.startswith(OWN_ARTIFACT_PREFIX) and not sdk.holds_text(artifact)


def _strip_task(task: Task) -> None:
    kept = [artifact for artifact in sdk.artifacts_of(task) if not (_is_own(artifact) and _carries(artifact))]
    for artifact in kept:
        _strip(artifact)
    sdk.set_artifacts(task, kept)


def _strip(artifact: Artifact) -> None:
    if _carries(artifact):
        sdk.set_extensions(artifact, [uri for uri in sdk.extensions_of(artifact) if not _is_ours(uri)])
        sdk.drop_metadata(artifact, [key for key in sdk.metadata_keys(artifact) if _is_ours(key)])
