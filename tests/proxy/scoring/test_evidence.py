"""Evidence of calls: a turn waits for all sources that were heard of, and has what each shows, also late."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.telemetry.turn_listener import ScoredTurn, TurnListener
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI, ToolCall
from agents.replay_agent import ReplayAgent
from support.kept import turn
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied
from support.scoring import Scoring, scoring
from tool_call_evaluators.suite import parse_suite


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
        return replace(turn, tool_calls=[*turn.tool_calls, *(ToolCall(name, {"late": late}) for name in self.names)])


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
        calls = [(call["name"], call["arguments"]["late"]) for call in item["tool_calls"]]
        assert (item["status"], calls) == ("done", [("search", False), ("book", False)])
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


# ── calls that a task shows after its turn was closed and scored: no result on them stays ───────────────────


SUITE = """
suite: s
tools: [{name: look}, {name: delete}]
evaluators: [{tool_trajectory: {mode: strict}}, {forbidden_calls: {forbidden_calls: [{name: delete}]}}]
cases: [{id: c, turns: [{user: hi, expect: {tool_calls: [{name: look}]}}]}]
"""


def task(*calls: str) -> dict[str, Any]:
    artifacts = [
        {
            "artifactId": name,
            "parts": [{"text": "done"}],
            "metadata": {METADATA_KEY: [{"id": name, "name": name, "arguments": {}, "result": "done"}]},
            "extensions": [URI],
        }
        for name in calls
    ]
    return {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": artifacts}


async def shows(it: Proxied, *calls: str) -> None:
    """A client reads the task."""
    await it.asks("GetTask", {"id": "t"}, task(*calls))


@pytest.fixture
def suite(tmp_path: Path) -> str:
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE)
    return str(file)


async def known(it: Proxied) -> tuple[str, set[str], str]:
    """What is known of the calls of the only turn, the statuses of its results, and that of its run."""
    await it.proxy.flush(PATIENCE_S)
    (turn,) = await it.turns()
    verdict = (await it.get("/api/runs/nightly"))["verdict"] or {"status": ""}
    return turn["calls"], {one["status"] for one in turn["evaluations"]}, verdict["status"]


async def test_a_turn_whose_task_shows_a_call_later_is_scored_again(tmp_path: Path, suite: str) -> None:
    """Also one that another process stored."""
    with ReplayAgent() as agent:
        async with proxied(tmp_path, agent, suite=suite) as it:
            await it.answers({"task": task("look")})
            await it.proxy.flush(PATIENCE_S)
            await shows(it, "look")
            assert await known(it) == ("seen", {"passed"}, "passed"), "it shows nothing new"
        async with proxied(tmp_path, agent, suite=suite) as it:
            await shows(it, "look", "delete")
            assert await known(it) == ("unknown", {"skipped"}, "failed")


@pytest.mark.parametrize("evaluate", [True, False])
async def test_what_evaluate_said_of_a_run_stands_until_calls_are_not_known_any_more(
    tmp_path: Path, suite: str, evaluate: bool
) -> None:
    said, store = parse_suite(SUITE), str(tmp_path / "turns.db")
    async with proxied(tmp_path, suite=suite, evaluate=evaluate) as it:
        await it.answers({"task": task("look")})
        await it.proxy.flush(PATIENCE_S)
        assert (await evaluate_store(said, store, "nightly")).verdict.passed
        assert await known(it) == ("seen", {"passed"}, "passed")
        await shows(it, "look", "delete")
        calls, _, status = await known(it)
        assert (calls, status) == ("unknown", "incomplete")
    assert not (await evaluate_store(said, store, "nightly")).verdict.passed


async def test_a_call_that_is_shown_before_a_turn_is_scored_counts(tmp_path: Path, suite: str) -> None:
    """Nobody scores it while the proxy runs."""
    async with proxied(tmp_path, suite=suite, evaluate=False) as it:
        await it.answers({"task": task("look")})
        await it.proxy.flush(PATIENCE_S)
        await shows(it, "look", "delete")
        await it.proxy.flush(PATIENCE_S)
    assert not (await evaluate_store(parse_suite(SUITE), str(tmp_path / "turns.db"), "nightly")).verdict.passed
