"""What the turn book keeps of exchanges and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Any

from a2a_tool_capture import Finding, Severity, TaskMerger

from ..turn import Turn
from .lookups import Lookup


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

    counted: int = 0
    """Size of `merger` when it was last counted."""

    @property
    def size(self) -> int:
        """Bytes of memory of an exchange without a task, or with a view of its own, about."""
        return _turn_bytes(self.turn) + self.merger.size

    @property
    def importance(self) -> tuple[int, float]:
        """As `TaskRecord.importance`, for an exchange without a task."""
        return 2, self.touched_at


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
    counted: int = 0
    """As in `Stream`."""
    opener: Stream | None = None
    """The exchange that opened the turn, as long as it is under way."""

    @property
    def size(self) -> int:
        """Bytes of memory, about, without views that streams have of their own."""
        over = self.over.size if self.over is not None else 0
        return _turn_bytes(self.turn) + self.merger.size + over

    @property
    def importance(self) -> tuple[int, float]:
        """The least goes first where there is no room: a task without an open turn, then one without its client."""
        rank = 0 if self.turn is None else 1 if self.outlives and not self.streams else 2
        return rank, self.touched_at


UNCOUNTED_BYTES = 1_024
"""By so much an exchange may grow before it is counted again: most events are small."""

_OBJECTS_BYTES = 3_000 + UNCOUNTED_BYTES
"""Of a turn and what is kept beside it, without texts: about what CPython takes."""


def _turn_bytes(turn: Turn | None) -> int:
    return _OBJECTS_BYTES + (getsizeof(turn.user_text) if turn is not None else 0)


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
