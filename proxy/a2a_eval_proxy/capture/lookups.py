"""Questions to a store about tasks. What any exchange reports on such a task waits, in order, in one queue. Sans-io.

Where the store knows nothing of a task either, the queue stays for a while: a notification may come before the answer
that names its task to the client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.recent import Recent

from ..turn import Turn

MAX_WAITING = 1_000
"""Maximum number of events that wait for one task; with more, the turn continues without the store."""

_MAX_WATCHED = 10_000
"""Maximum number of tasks that only exchanges without a message ask about, questions and queues together."""

_UNCLAIMED_S = 30.0
"""Time for which a queue stays that no turn has claimed."""

_NOT_OPEN_S = 2.0
"""Time before the store is asked again about a task without an open turn, if the book has forgotten it by then."""

_MAX_NOT_OPEN = 10_000


class TaskStore(Protocol):
    """What is known of tasks beyond a turn book. No method waits or raises."""

    def look_up(self, task_id: str) -> None:
        """Ask about a task: calls of earlier turns are no calls of a later one. The answer goes to `TurnBook.found`."""

    def keep_open(self, turn: Turn) -> bool:
        """Take a copy of a turn that is open when its exchange ends, and again when it has changed; returns whether it
        was taken, so that another process can continue the turn."""

    def found_late(self, task_id: str, finding: Finding, calls: Sequence[ToolCall] = ()) -> None:
        """Add a finding to the last turn of a task that has no open turn; with `calls`, if its turns lack any."""


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """What a store has of a task: its closed turns, oldest first, and the open one.

    `known` is False where the store did not answer, or has nothing of a task that a message continues.
    """

    closed: Sequence[Turn] = ()
    open: Turn | None = None
    known: bool = True


@dataclass(slots=True, eq=False)
class Lookup:
    """One question, and what to do once it is answered, or a turn names its task."""

    task_id: str
    turns: list[Turn] = field(default_factory=list)
    """Turns that continue the task."""
    waiting: list[Callable[[], object]] = field(default_factory=list)
    answered: bool = False
    """Whether nothing waits any more."""
    unclaimed_at: float | None = None
    """When the store has said that it knows nothing of the task; None before."""


class Lookups:
    """The open questions and unclaimed queues. Without a store, no question is asked."""

    def __init__(self, store: TaskStore | None) -> None:
        self.store = store
        self.pending: dict[str, Lookup] = {}
        """By task: the question that is not answered, or the queue."""
        self._not_open: Recent[str, float] = Recent(_MAX_NOT_OPEN)

    @property
    def task_ids(self) -> list[str]:
        """Tasks with a question or a queue."""
        return list(self.pending)

    def of_turn(self, turn: Turn) -> Lookup | None:
        """The question about the task that a message continues."""
        if self.store is None:
            return None
        lookup = self.pending.get(turn.task_id)
        if lookup is None:
            lookup = self.pending[turn.task_id] = Lookup(turn.task_id)
            self.store.look_up(turn.task_id)
        lookup.turns.append(turn)
        return lookup

    def of_watcher(self, task_id: str, now: float) -> Lookup | None:
        """The question about a task that a client reads; None where it need not be asked."""
        if self.store is None or self._not_open.get(task_id, 0.0) > now or len(self.pending) >= _MAX_WATCHED:
            return None
        lookup = self.pending[task_id] = Lookup(task_id)
        self.store.look_up(task_id)
        return lookup

    def answered(self, task_id: str) -> Lookup | None:
        """Remove a question or queue: what waits is taken, or lost, now."""
        lookup = self.pending.pop(task_id, None)
        if lookup is not None:
            lookup.answered = True
        return lookup

    def stale(self, now: float) -> list[str]:
        """The tasks whose queue no turn has claimed in time."""
        found = ((one.task_id, one.unclaimed_at) for one in self.pending.values())
        return [task_id for task_id, since in found if since is not None and now - since > _UNCLAIMED_S]

    def is_not_open(self, task_id: str, now: float) -> None:
        """The store has no open turn of the task: do not ask again for a while."""
        if self.store is not None:
            self._not_open[task_id] = now + _NOT_OPEN_S
