"""Questions to a store about tasks. What exchanges report on these tasks waits, in order, for the answer. Sans-io."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from a2a_tool_capture.recent import Recent

from ..turn import Turn

AskStore = Callable[[str, bool, Sequence[str]], None]
"""Starts a question to the store about a task. Arguments: its id; whether to ask again if the store has nothing new,
since another process may be about to write it; and the ids of its turns that are known. Must neither wait nor raise;
`TurnBook.found` takes the answer later."""

MAX_WAITING = 1_000
"""Maximum number of events that wait for one task; with more, the turn continues without the store."""

_MAX_WATCHED = 200
"""Maximum number of open questions for exchanges that only watch."""

_NOT_OPEN_S, _NOT_OPEN_ANY_MORE_S = 2.0, 600.0
"""Time before the store is asked again about a task without an open turn; the second, if the task has ended."""

_MAX_NOT_OPEN = 10_000


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """What a store has of a task: its closed turns, oldest first, and the open one.

    `known` is False where the store did not answer, or has nothing of a task that a message continues.
    """

    closed: Sequence[Turn] = ()
    open: Turn | None = None
    known: bool = True


class OpenTurns(Protocol):
    """The open turns of one data port: its turn book, or what the main process knows of a serving process's."""

    def knows(self, turn_id: str) -> bool:
        """Whether the turn is open there."""

    def found(self, task_id: str, history: TaskHistory, now: float) -> None:
        """The answer to a question (`AskStore`)."""

    def give_up(self, turn: Turn, now: float) -> None:
        """Close a turn that another process left open."""


@dataclass(slots=True, eq=False)
class Lookup:
    """One question, and what to do once it is answered."""

    task_id: str
    turns: list[Turn] = field(default_factory=list)
    """Turns that continue the task."""
    waiting: list[Callable[[], object]] = field(default_factory=list)
    over: bool = False
    """Whether a watcher has seen the end of the task."""
    answered: bool = False


class Lookups:
    """The open questions. Without `look_up`, no question is asked."""

    def __init__(self, look_up: AskStore | None) -> None:
        self._look_up = look_up
        self._open: dict[str, Lookup] = {}
        self._of_conversation: dict[str, Lookup] = {}
        self._not_open: Recent[str, float] = Recent(_MAX_NOT_OPEN)

    @property
    def task_ids(self) -> list[str]:
        return list(self._open)

    def of_turn(self, turn: Turn, captured: Sequence[str]) -> Lookup | None:
        """The question that a new turn waits for, if any.

        It is about the task that the turn continues, whose known turns are `captured`. A turn that continues no task
        waits for the question of an earlier turn of its conversation.
        """
        if self._look_up is None:
            return None
        if not turn.task_id:
            return self._of_conversation.get(turn.conversation_id)
        lookup = self._open.get(turn.task_id)
        if lookup is None:
            lookup = self._open[turn.task_id] = Lookup(turn.task_id)
            self._look_up(turn.task_id, True, captured)
        lookup.turns.append(turn)
        if turn.conversation_id:
            self._of_conversation[turn.conversation_id] = lookup
        return lookup

    def of_watcher(self, task_id: str, over: bool, now: float, expected: bool) -> Lookup | None:
        """The question about a task that a client reads, perhaps as ended (`over`); None where it need not be asked.

        `expected`: see `TaskWatcher`.
        """
        lookup = self._open.get(task_id)
        if lookup is not None or self._look_up is None:
            return lookup
        if (self._not_open.get(task_id, 0.0) > now and not expected) or len(self._open) >= _MAX_WATCHED:
            return None
        lookup = self._open[task_id] = Lookup(task_id, over=over)
        self._look_up(task_id, over or expected, ())
        return lookup

    def answered(self, task_id: str) -> Lookup | None:
        lookup = self._open.pop(task_id, None)
        if lookup is not None:
            lookup.answered = True
            for turn in lookup.turns:
                if self._of_conversation.get(turn.conversation_id) is lookup:
                    del self._of_conversation[turn.conversation_id]
        return lookup

    def is_not_open(self, task_id: str, now: float, *, over: bool = False) -> None:
        """The store has no open turn of the task: do not ask again for a while."""
        if self._look_up is None:
            return
        self._not_open[task_id] = now + (_NOT_OPEN_ANY_MORE_S if over else _NOT_OPEN_S)
