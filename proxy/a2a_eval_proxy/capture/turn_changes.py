"""What changes in open turns, for those who look at them. Sans-io."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from a2a_tool_capture import ToolCall

from ..turn import Turn


@dataclass(frozen=True, slots=True)
class TurnChanges:
    """What is new in a turn. `turn` is a copy, with all its calls, or with the changed ones only."""

    turn: Turn
    changed: Sequence[int] = ()
    """Places of the calls that are new or changed."""
    count: int = 0
    """Number of all calls of the turn."""
    removed: bool = False
    """Whether there were more calls before."""
    state: bool = False
    """Whether the state or the task is another one."""
    text: str = ""
    """New text: follows the text before, or replaces it if `append` is false."""
    append: bool = False
    characters: int | None = None
    """Length of the whole text; None if the text has not changed."""

    def brief(self) -> Turn:
        """The turn without text, and with the changed calls only."""
        turn = self.turn
        calls = [call for _, call in self.pick(turn.tool_calls)]
        return replace(turn, tool_calls=calls, response_text="", findings=[])

    def pick(self, calls: Sequence[ToolCall]) -> Iterator[tuple[int, ToolCall]]:
        """The changed calls with their places, from `calls`: all of the turn, or the changed ones only."""
        if len(calls) == self.count:
            return ((index, calls[index]) for index in self.changed)
        return zip(self.changed, calls, strict=False)  # none if the turn could not be redacted


@dataclass(slots=True)
class ShownTurn:
    """What was reported of a turn so far."""

    calls: list[ToolCall] = field(default_factory=list)
    state: tuple[str | None, str] = (None, "")
    text_length: int = 0
    text_hash: int = 0

    def changes(self, turn: Turn) -> TurnChanges | None:
        """What is new in `turn`, once; None for nothing."""
        calls, earlier = turn.tool_calls, self.calls
        changed = [
            index
            for index, call in enumerate(calls)
            if index >= len(earlier) or (call is not earlier[index] and call != earlier[index])
        ]
        removed = len(calls) < len(earlier)
        is_new_state = (turn.state, turn.task_id) != self.state
        text, length = turn.response_text, self.text_length
        extends = len(text) >= length and hash(text[:length]) == self.text_hash
        is_new_text = not extends or len(text) > length
        append = extends and length > 0  # who looks may have come later than the text before
        if not (changed or removed or is_new_state or is_new_text):
            return None
        self.calls, self.state = calls, (turn.state, turn.task_id)
        if is_new_text:
            self.text_length, self.text_hash = len(text), hash(text)
        return TurnChanges(
            turn,
            changed,
            len(calls),
            removed,
            is_new_state,
            (text[length:] if append else text) if is_new_text else "",
            append,
            len(text) if is_new_text else None,
        )


class ChangeTracker:
    """Compares open turns with what was reported of them. `on_changed` is called when `changes` has something to do."""

    def __init__(self, on_changed: Callable[[], None]) -> None:
        self._on_changed = on_changed
        self._waiting: dict[str, Callable[[], Sequence[Turn]]] = {}
        self._shown: dict[str, ShownTurn] = {}

    def changed(self, turn_id: str, turns: Callable[[], Sequence[Turn]]) -> None:
        """An open turn may have changed. `turns`: copies of the open turns of its task, as they are when called."""
        if not self._waiting:
            self._on_changed()
        self._waiting[turn_id] = turns

    def changes(self, most: int) -> tuple[list[TurnChanges], bool]:
        """What is new in up to `most` turns, and whether more of them wait."""
        found = []
        for turn_id, turns in list(islice(self._waiting.items(), most)):
            del self._waiting[turn_id]
            for turn in turns():
                if turn.turn_id == turn_id:
                    new = self._shown.setdefault(turn_id, ShownTurn()).changes(turn)
                    found += [new] if new is not None else []
        return found, bool(self._waiting)

    def closed(self, turn: Turn) -> TurnChanges | None:
        """What is new in a turn that is over."""
        self._waiting.pop(turn.turn_id, None)
        return self._shown.pop(turn.turn_id, ShownTurn()).changes(turn)
