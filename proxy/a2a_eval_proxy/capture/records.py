"""What the turn book keeps of exchanges and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a_tool_capture import Finding, Severity, TaskMerger

from .lookups import Lookup
from .turn import Turn


@dataclass(slots=True, eq=False)
class Stream:
    """One exchange that tells about a task: its own view, since two streams of a task repeat each other."""

    merger: TaskMerger
    turn: Turn | None = None
    """The turn this exchange opened; None where it only watches (get, list, subscribe, cancel)."""
    record: TaskRecord | None = None
    findings: list[Finding] = field(default_factory=list)
    lookup: Lookup | None = None
    """What the store is asked about its task; until that is answered, all that it reports waits."""
    touched_at: float = 0.0
    """When something was last heard of a turn without a task."""
    answered_at: float | None = None
    """When a Message, which is a whole answer, came for a turn without a task."""


@dataclass(slots=True, eq=False)
class TaskRecord:
    """What the book knows of one task: the merged view, the open turn, and the live streams that tell of it."""

    task_id: str
    merger: TaskMerger
    touched_at: float
    turn: Turn | None = None
    streams: list[Stream] = field(default_factory=list)
    settled_at: float | None = None
    over: TaskMerger | None = None
    """The whole task as a stream told it that joined later and came to the end first: the first may be dead already,
    its client gone, without anybody having noticed."""
    resuming: bool = False
    """A message continued the task and nothing new came back yet."""
    outlives: bool = False
    """The exchange that opened the turn is over, and the turn is not."""
    stored_at: float | None = None
    """When the open turn was last given to the store."""
    captured: list[str] = field(default_factory=list)
    """Ids of the turns of which `merger` was told."""


EARLIER_UNKNOWN = Finding(
    "earlier_calls_unknown",
    "the store could not tell what earlier turns of this task had; calls of theirs may be among these",
    Severity.WARNING,
    "store",
)


def task_id_of(event: Mapping[str, Any]) -> str:
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


def incomplete_because(why: str) -> Finding:
    return Finding("incomplete", f"the turn was closed before it was complete: {why}", Severity.WARNING)
