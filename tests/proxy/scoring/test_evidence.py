"""Several sources of evidence: a turn waits for all that were heard of, and has what each shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from a2a_eval_proxy.telemetry.turn_listener import ScoredTurn, TurnListener
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from support.kept import turn
from support.patience import PATIENCE_S
from support.scoring import Scoring, scoring


@dataclass
class Shown:
    """Evidence of these calls."""

    names: list[str]

    @property
    def size(self) -> int:
        return len(self.names)

    def added_to(self, turn: Turn, *, late: bool) -> Turn:
        if "unreadable" in self.names:
            raise ValueError("no evidence")
        return replace(turn, tool_calls=[*turn.tool_calls, *map(ToolCall, self.names)])


@dataclass
class Source:
    """Shows what a test gives it; a turn waits for it where it `was_heard`."""

    was_heard: bool = True
    names: list[str] = field(default_factory=list)
    all_came: bool = False
    listeners: list[Callable[[Turn, bool], None]] = field(default_factory=list)

    def listen(self, agent_name: str | None, changed: Callable[[Turn, bool], None]) -> Callable[[], None]:
        self.listeners.append(changed)
        return lambda: self.listeners.remove(changed)

    def heard(self, agent_name: str | None) -> bool:
        return self.was_heard

    def wait_s(self, turn: Turn) -> float:
        return PATIENCE_S if self.was_heard and not self.all_came else 0.0

    def complete(self, turn: Turn) -> bool:
        return self.all_came

    def evidence(self, turn: Turn) -> Shown | None:
        return Shown([*self.names]) if self.names else None

    def give(self, turn: Turn, *names: str) -> None:
        self.names += names
        self.all_came = True
        for changed in self.listeners:
            changed(turn, True)


class Scorings(TurnListener):
    """The names of the calls with which turns were scored."""

    def __init__(self) -> None:
        self.of: list[list[str]] = []

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        self.of += [[call.name for call in turn.tool_calls] for turn, _, _ in scored]


@asynccontextmanager
async def with_sources(folder: Path, *sources: Source) -> AsyncIterator[tuple[Scoring, list[list[str]]]]:
    scorings = Scorings()
    async with scoring(folder / "turns.db", listener=scorings, evidence=sources) as it:
        yield it, scorings.of
    assert not any(source.listeners for source in sources)


async def test_a_turn_waits_for_all_that_were_heard_of(tmp_path: Path) -> None:
    first, second, silent = Source(), Source(), Source(was_heard=False)
    async with with_sources(tmp_path, first, silent, second) as (it, scorings):
        it.pipeline.take(turn(1))
        await it.pipeline.written()
        first.give(turn(1), "search")
        await it.pipeline.written()
        second.give(turn(1), "book")
        await it.pipeline.drained()
        (item,) = await it.stored()
        assert (item["status"], [call["name"] for call in item["tool_calls"]]) == ("done", ["search", "book"])
    assert scorings == [["search", "book"]]


async def test_more_of_either_scores_a_turn_again(tmp_path: Path) -> None:
    first, second = Source(names=["search"], all_came=True), Source(was_heard=False)
    async with with_sources(tmp_path, first, second) as (it, scorings):
        await it.take(turn(1))
        second.give(turn(1), "book")
        await it.pipeline.drained()
    assert scorings == [["search"], ["search", "book"]]


@pytest.mark.parametrize("broken", [0, 1])
async def test_what_cannot_be_read_of_one_costs_nothing_of_another(tmp_path: Path, broken: int) -> None:
    names = [["search"], ["search"]]
    names[broken] = ["unreadable"]
    sources = [Source(names=one, all_came=True) for one in names]
    async with with_sources(tmp_path, *sources) as (it, scorings):
        await it.take(turn(1))
        (item,) = await it.stored()
        assert (item["calls"], [found["code"] for found in item["findings"]]) == ("unknown", ["capture_error"])
    assert scorings == [["search"]]
