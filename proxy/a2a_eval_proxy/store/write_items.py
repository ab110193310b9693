"""What a store writes, as it waits in the queue: encoded, and counted in bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..turn import Turn
from .base import Evaluations
from .encoding import ROW_BYTES, EncodedConversation, EncodedScored, EncodedTurn, encoded_turn


def nothing() -> None:
    """Writes nothing, and waits for nothing."""


@dataclass(slots=True)
class Item:
    """What is written as a whole: `rows`. `committed` is called afterwards, in the writing thread."""

    rows: Sequence[Any]
    committed: Callable[[], object]
    size: int = field(init=False, default=0)
    """Bytes of memory, about."""

    def __post_init__(self) -> None:
        self.size = sum([row.size for row in self.rows])


@dataclass(slots=True)
class Add(Item):
    """Closed or open turns. Those in `raw`, some with `results`, are encoded by the writing thread first."""

    rows: Sequence[EncodedTurn]
    results: Mapping[str, Evaluations] = field(default_factory=dict)
    held: Collection[str] = ()
    raw: Sequence[Turn] = ()

    def __post_init__(self) -> None:
        self.size = sum([len(turn.user_text) + len(turn.response_text) + ROW_BYTES for turn in self.raw])

    def encode(self) -> None:
        self.rows = [encoded_turn(turn, self.results.get(turn.turn_id)) for turn in self.raw]
        self.raw, self.results = (), {}
        self.size = sum([turn.size for turn in self.rows])


class Settle(Item):
    """Turns as traces have them now."""

    rows: Sequence[EncodedTurn]


class Finish(Item):
    """Results of turns."""

    rows: Sequence[EncodedScored]


class FinishConversations(Item):
    """Results of conversations."""

    rows: Sequence[EncodedConversation]


class Discard(Item):
    """Ids of turns to delete."""

    rows: Sequence[str]

    def __post_init__(self) -> None:
        """Ids take no memory worth counting."""


@dataclass(slots=True)
class Mark(Item):
    """Reached when everything before it is committed."""

    rows: Sequence[Any] = ()
    committed: Callable[[], object] = nothing
    last: bool = False


@dataclass(frozen=True, slots=True)
class Prune:
    """Done between groups of items."""

    before: float | None
    """In seconds since the epoch."""
    max_bytes: int | None
    reported: Callable[[int | Exception], object] | None = None
    """Receives the number of deleted turns, or why they could not be deleted; None: the log does."""
    size: int = 0


def latest_results(group: Iterable[Item]) -> list[EncodedScored]:
    """One for each turn with results: the last ones, and what was last merged into it."""
    latest: dict[str, EncodedScored] = {}
    for scored in [row for item in group if isinstance(item, Finish) for row in item.rows]:
        before = latest.get(scored.turn_id)
        if before is not None and scored.merged is None:
            scored = replace(scored, merged=before.merged)
        latest[scored.turn_id] = scored
    return list(latest.values())
