"""Takes the extension out of what a2a-sdk servers answer to clients that did not ask for it."""

from __future__ import annotations

from typing import overload

from a2a.server.events import Event
from a2a.types import Artifact, ListTasksResponse, Message, Task, TaskArtifactUpdateEvent

from .spec import BASE_URI

OWN_ARTIFACT_PREFIX = "tool-calls-"
"""How the ids of artifacts begin that exist for their tool calls only."""


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
            update = TaskArtifactUpdateEvent()
            update.CopyFrom(event)
            _strip(update.artifact)
            return update
        case Task():
            if not any(_carries(artifact) for artifact in event.artifacts):
                return event
            task = Task()
            task.CopyFrom(event)
            _strip_task(task)
            return task
    return event


def tasks_without_tool_calls(page: ListTasksResponse) -> ListTasksResponse:
    """A ListTasks answer whose tasks carry no tool calls; the same object if they carry none."""
    if not any(_carries(artifact) for task in page.tasks for artifact in task.artifacts):
        return page
    stripped = ListTasksResponse()
    stripped.CopyFrom(page)
    for task in stripped.tasks:
        _strip_task(task)
    return stripped


def _carries(artifact: Artifact) -> bool:
    return any(map(_is_ours, artifact.extensions)) or any(map(_is_ours, artifact.metadata))


def _is_ours(name: str) -> bool:
    return name.startswith(f"{BASE_URI}/")


def _is_own(artifact: Artifact) -> bool:
    return artifact.artifact_id.startswith(OWN_ARTIFACT_PREFIX) and not any(part.text for part in artifact.parts)


def _strip_task(task: Task) -> None:
    for place in reversed(range(len(task.artifacts))):
        artifact = task.artifacts[place]
        if not _carries(artifact):
            continue
        if _is_own(artifact):
            del task.artifacts[place]
        else:
            _strip(artifact)


def _strip(artifact: Artifact) -> None:
    kept = [uri for uri in artifact.extensions if not _is_ours(uri)]
    del artifact.extensions[:]
    artifact.extensions.extend(kept)
    for key in [key for key in artifact.metadata if _is_ours(key)]:
        del artifact.metadata[key]
    if not artifact.metadata:
        artifact.ClearField("metadata")
