"""Questions to a store about tasks; what exchanges report of these tasks waits, in order, for the answer. Sans-io."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..turn import Turn

LookUp = Callable[[str, bool, Sequence[str]], None]
"""Begins to ask a store about a task: its id; whether to ask again where the store has nothing new, since another
process may be about to write it; and the ids of the task's turns that are no news. Must neither wait nor raise; the
answer is given to `TurnBook.found` later."""

MAX_WAITING = 1_000
"""Events that wait for one task; with more, the turn goes on without what the store knows."""

_MAX_WATCHED = 200
"""Tasks asked about at a time for those who only watch."""

_NOT_OPEN_S, _NOT_OPEN_ANY_MORE_S = 2.0, 600.0
"""For so long a task of which the store had no open turn is not asked about again; the second, if the task is over."""

_MAX_NOT_OPEN = 10_000


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """What a store has of a task: its turns that are closed, oldest first, and the one that is open.

    `known` is False where the store could not be asked, or has nothing of a task that a message goes on with.
    """

    closed: Sequence[Turn] = ()
    open: Turn | None = None
    known: bool = True


@dataclass(slots=True, eq=False)
class Lookup:
    """One question, and what is to be done once it is answered."""

    task_id: str
    turns: list[Turn] = field(default_factory=list)
    """Turns that go on with the task."""
    waiting: list[Callable[[], object]] = field(default_factory=list)
    over: bool = False
    """Whether the task was seen to have ended."""
    answered: bool = False


class Lookups:
    """The questions that are open. Without `look_up` there never is one."""

    def __init__(self, look_up: LookUp | None) -> None:
        self._look_up = look_up
        self._open: dict[str, Lookup] = {}
        self._of_conversation: dict[str, Lookup] = {}
        self._not_open: OrderedDict[str, float] = OrderedDict()

    @property
    def task_ids(self) -> list[str]:
        return list(self._open)

    def of_turn(self, turn: Turn, captured: Sequence[str]) -> Lookup | None:
        """The question that a new turn waits for; None where it waits for none.

        It is about the task that the turn goes on with, of which the turns that are known are `captured`. A turn that
        goes on with no task waits for the question of an earlier turn of its conversation.
        """
        if self._look_up is None:
            return None
        if not turn.task_id:
            return self._of_conversation.get(turn.conversation_id)
        lookup = self._open.get(turn.task_id)
        if lookup is None:
            lookup = self._open[turn.task_id] = Lookup(turn.task_id)
            lookup.turns.append(turn)
            self._look_up(turn.task_id, True, captured)
        else:
            lookup.turns.append(turn)
        if turn.conversation_id:
            self._of_conversation[turn.conversation_id] = lookup
        return lookup

    def of_watcher(self, task_id: str, over: bool, now: float) -> Lookup | None:
        """The question about a task that somebody was shown, perhaps as `over`; None where it is not to be asked."""
        lookup = self._open.get(task_id)
        if lookup is not None or self._look_up is None:
            return lookup
        if self._not_open.get(task_id, 0.0) > now or len(self._open) >= _MAX_WATCHED:
            return None
        lookup = self._open[task_id] = Lookup(task_id, over=over)
        self._look_up(task_id, over, ())
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
        """The store has no open turn of the task; do not ask again for a while."""
        if self._look_up is None:
            return
        self._not_open[task_id] = now + (_NOT_OPEN_ANY_MORE_S if over else _NOT_OPEN_S)
        self._not_open.move_to_end(task_id)
        if len(self._not_open) > _MAX_NOT_OPEN:
            self._not_open.popitem(last=False)
