"""Conversations as a whole: scored when all turns of their case are done, once for each time they change."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from a2a_eval_proxy.privacy.policy import NO_PRIVACY
from a2a_eval_proxy.scoring.case_book import CaseBook, RegisteredCase
from a2a_eval_proxy.scoring.pipeline import Pipeline
from a2a_eval_proxy.scoring.rescoring import Rescoring
from a2a_eval_proxy.scoring.scorer import MAX_HISTORY, Scorer, ThreadExecutor
from a2a_eval_proxy.store import SqliteStore, TurnQuery, every_turn
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.telemetry.event_bus import EventBus
from a2a_eval_proxy.telemetry.turn_events import TurnEvents
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from support.live import heard
from tool_call_evaluators import registry
from tool_call_evaluators.evaluator import AsyncEvaluator, Measurement
from tool_call_evaluators.model import EvalCase
from tool_call_evaluators.suite import parse_case, parse_suite

SUITE = """
suite: orders
evaluators:
  - tool_error
  - {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}
tools: [{name: find}]
cases:
  - id: refund
    turns: [{user: Refund it}, {user: Really}]
    expect: {tool_calls: [{name: find}, {name: pay}]}
"""


@dataclass(frozen=True, kw_only=True)
class Witness(AsyncEvaluator):
    """Keeps what it was shown; waits, as a judge does."""

    name: ClassVar[str] = "witness_of_test_conversations"
    seen: ClassVar[list[EvalCase]] = []

    async def measure(self, case: EvalCase) -> Measurement:
        await asyncio.sleep(0)
        self.seen.append(case)
        return Measurement(1.0, "seen")


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> type[Witness]:
    monkeypatch.setitem(registry._registered, Witness.name, Witness)
    Witness.seen.clear()
    return Witness


def turn(number: int, text: str, *calls: str, conversation: str = "c", **fields: Any) -> Turn:
    made = [ToolCall(name, result="done") for name in calls]
    it = Turn(f"turn-{number:04}", "nightly", "http://agent", "JSONRPC", "1.0", float(number), tool_calls=made)
    it.status, it.ended_at, it.user_text, it.conversation_id = "pending", number + 0.5, text, conversation
    it.response_text, it.state, it.shown_by = f"re: {text}", "TASK_STATE_COMPLETED", "extension"
    for name, value in fields.items():
        setattr(it, name, value)
    return it


@dataclass
class Running:
    pipeline: Pipeline
    store: SqliteStore
    cases: CaseBook
    bus: EventBus
    metrics: Metrics
    scorer: Scorer | None

    async def take(self, *turns: Turn) -> None:
        for it in turns:
            self.pipeline.take(it)
        await self.pipeline.drained()

    async def said(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """The scores of conversations, by conversation and case."""
        return {
            (found.key.conversation_id, found.key.case_id): {
                result["evaluator"]: result["score"] for result in found.evaluations
            }
            for found in await self.store.conversations()
        }


@asynccontextmanager
async def running(path: Path, suite_text: str = SUITE, *, evaluate: bool = True) -> AsyncIterator[Running]:
    suite = parse_suite(suite_text)
    cases, bus, metrics = CaseBook(suite), EventBus(), Metrics()
    store = SqliteStore(str(path))
    scorer = Scorer(cases, suite, store.judge_cache) if evaluate else None
    pipeline = Pipeline(store, cases, scorer, TurnEvents(bus), metrics)
    try:
        yield Running(pipeline, store, cases, bus, metrics, scorer)
    finally:
        await pipeline.close()
        await asyncio.to_thread(store.close)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


async def test_a_conversation_is_scored_when_the_last_turn_of_its_case_is_done(path: Path) -> None:
    async with running(path) as it:
        await it.take(turn(1, "Refund it", "find"))
        assert await it.said() == {}
        await it.take(turn(2, "Really", "pay"))
        assert await it.said() == {("c", "refund"): {"whole": 1.0}}
        assert it.metrics.evaluations["whole", "passed"] == 1
        assert it.pipeline.depth == 0


async def test_turns_that_come_in_one_batch_are_one_conversation(path: Path) -> None:
    async with running(path) as it:
        with it.bus.listen() as events:
            await it.take(turn(1, "Refund it", "find"), turn(2, "Really", "refuse"))
            assert await it.said() == {("c", "refund"): {"whole": 0.5}}
            names = [event.name for event in heard(events)]
            assert names.count("conversation.done") == 1


async def test_conversations_are_apart(path: Path) -> None:
    async with running(path) as it:
        await it.take(
            turn(1, "Refund it", "find", conversation="c1"),
            turn(2, "Refund it", conversation="c2"),
            turn(3, "Really", "pay", conversation="c1"),
            turn(4, "Really", conversation="c2"),
            turn(5, "Refund it", conversation="c3"),
            turn(6, "Refund it", "find", conversation="c1", run="another"),
        )
        assert await it.said() == {("c1", "refund"): {"whole": 1.0}, ("c2", "refund"): {"whole": 0.0}}


async def test_a_conversation_that_goes_on_is_scored_again(path: Path) -> None:
    async with running(path) as it:
        await it.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
        await it.take(turn(3, "And another", "pay"))
        ((_, said),) = (await it.said()).items()
        assert said["whole"] == pytest.approx(2 / 3)


@pytest.mark.parametrize("conversation", ["", "c"])
async def test_turns_without_a_case_or_conversation_make_none(path: Path, conversation: str) -> None:
    async with running(path) as it:
        text = "Something else" if conversation else "Refund it"
        await it.take(turn(1, text, conversation=conversation))
        assert await it.said() == {}


async def test_a_registered_case_with_evaluators_of_its_own(path: Path) -> None:
    async with running(path, "suite: x\nevaluators: [tool_error]\ntools: [{name: find}]") as it:
        own = {"id": "own", "turns": [{"user": "Hello"}], "evaluators": ["tool_efficiency", "tool_call_validity"]}
        it.cases.put(RegisteredCase(parse_case(own)))
        await it.take(turn(1, "Hello", "find", "find"), turn(2, "Something else", "find", conversation="d"))
        evaluations = [
            {result["evaluator"]: result["score"] for result in item["evaluations"]}
            async for item in every_turn(it.store, TurnQuery())
        ]
        assert evaluations == [{"tool_efficiency": 0.5, "tool_call_validity": 1.0}, {"tool_error": 1.0}]
        it.cases.put(RegisteredCase(parse_case({**own, "evaluators": ["tool_error"]})))
        await it.take(turn(3, "Hello", conversation="e"))
        (last,) = (await it.store.turns(TurnQuery(conversation="e"))).items
        assert [result["evaluator"] for result in last["evaluations"]] == ["tool_error"]


async def test_what_a_crash_left_unscored_is_scored_after_a_restart(path: Path) -> None:
    async with running(path, evaluate=False) as before:
        await before.take(turn(1, "Refund it", "find", case_id="refund"))
    async with running(path) as after:
        await after.pipeline.resume()
        await after.take(turn(2, "Really", "pay"))
        assert await after.said() == {("c", "refund"): {"whole": 1.0}}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM conversations")  # as if it had died before this was written
    async with running(path) as again:
        await again.pipeline.resume()
        await again.pipeline.drained()
        assert await again.said() == {("c", "refund"): {"whole": 1.0}}
        assert await again.store.unscored_conversations(1000) == []


async def test_resuming_one_run_leaves_the_others_alone(path: Path) -> None:
    async with running(path, evaluate=False) as before:
        await before.take(*(turn(n, "Refund it", run=run, case_id="refund") for n, run in enumerate(["a", "b", "a"])))
    async with running(path) as after:
        assert await after.pipeline.resume("a") == 2
        await after.pipeline.drained()
        pending = (await after.store.turns(TurnQuery(status="pending"))).items
        assert [item["run"] for item in pending] == ["b"]


async def test_a_turn_is_judged_in_the_light_of_those_before_it(path: Path, witness: type[Witness]) -> None:
    suite = f"suite: x\nevaluators: [{witness.name}]\ncases: [{{id: talk, turns: [{{user: one}}, {{user: two}}]}}]"
    async with running(path, suite) as it:
        for number, text in enumerate(["one", "two", "three"]):
            await it.take(turn(number, text, "find"))
        await it.take(turn(9, "one", conversation="another"))
        history = {
            case.user_text: [(past.user_text, past.response_text, len(past.tool_calls)) for past in case.history]
            for case in witness.seen
        }
        said = [(text, f"re: {text}", 1) for text in ("one", "two")]
        assert history == {"one": [], "two": said[:1], "three": said}


async def test_the_history_of_a_long_conversation_is_its_end(path: Path, witness: type[Witness]) -> None:
    async with running(path, f"suite: x\nevaluators: [{witness.name}]") as it:
        await it.take(*(turn(number, f"text {number}") for number in range(MAX_HISTORY + 5)))
        last = next(case for case in witness.seen if case.user_text == f"text {MAX_HISTORY + 4}")
        assert [past.user_text for past in last.history] == [f"text {n}" for n in range(4, MAX_HISTORY + 4)]


async def test_evaluators_of_conversations_see_the_turns_with_their_results(path: Path, witness: type[Witness]) -> None:
    suite = SUITE.replace("tool_trajectory: {", f"{witness.name}: {{").replace("mode: in_order, ", "")
    async with running(path, suite) as it:
        await it.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
        (seen,) = witness.seen
        turns = seen.turns or ()
        assert [it.user_text for it in turns] == ["Refund it", "Really"]
        assert [[result.evaluator for result in it.results] for it in turns] == [["tool_error"], ["tool_error"]]
        assert [call.name for call in seen.tool_calls] == ["find", "pay"]
        assert [tool.name for tool in seen.tools or ()] == ["find"]
        assert seen.response_text == "re: Really"


async def test_a_conversation_that_cannot_be_read_is_errored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(path) as it:

        async def locked(query: TurnQuery) -> Any:
            raise sqlite3.OperationalError("database is locked")

        monkeypatch.setattr(it.store, "turns", locked)
        await it.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
        ((_, said),) = (await it.said()).items()
        assert said == {"whole": None}
        assert it.metrics.evaluations["whole", "errored"] == 1


# ── scoring again ───────────────────────────────────────────────────────────────────────────────────────────


async def rescored(it: Running) -> dict[str, str]:
    """Score all turns again, in two pages; returns what moved to other cases."""
    turns = [item async for item in every_turn(it.store, TurnQuery())]
    assert it.scorer is not None
    executor = ThreadExecutor(it.scorer)
    rescoring = Rescoring(it.store, it.cases, it.scorer, executor, TurnListener(), NO_PRIVACY)
    await rescoring.score(turns[:1])
    await rescoring.score(turns[1:])
    await rescoring.score_conversations()
    await asyncio.to_thread(executor.close)
    return rescoring.moved


async def test_stored_turns_are_scored_again_by_another_suite(path: Path, witness: type[Witness]) -> None:
    async with running(path) as before:
        await before.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
    other = f"""
suite: other
evaluators: [tool_error, tool_efficiency, {{{witness.name}: {{scope: conversation}}}}]
cases: [{{id: renamed, turns: [{{user: Refund it}}, {{user: Really}}]}}]
"""
    for _ in range(2):
        witness.seen.clear()
        async with running(path, other) as it:
            moved = await rescored(it)
            items = (await it.store.turns(TurnQuery())).items
            assert [[result["evaluator"] for result in item["evaluations"]] for item in items] == [
                ["tool_error", "tool_efficiency"]
            ] * 2
            assert [item["case_id"] for item in items] == ["refund", "refund"]  # the store keeps what it was told
            assert moved == {"turn-0001": "renamed", "turn-0002": "renamed"}
            assert (await it.said())["c", "renamed"] == {witness.name: 1.0}
            assert len(witness.seen) == 1  # although its turns came in two pages


async def test_results_of_evaluators_that_the_suite_does_not_have_stay(path: Path) -> None:
    async with running(path, "suite: a\nevaluators: [tool_error, tool_efficiency]") as before:
        await before.take(turn(1, "Hello", "find"))
    async with running(path, "suite: b\nevaluators: [{tool_error: {threshold: 0.5}}]") as it:
        await rescored(it)
        (item,) = (await it.store.turns(TurnQuery())).items
        found = {result["evaluator"]: result["threshold"] for result in item["evaluations"]}
        assert found == {"tool_efficiency": 1.0, "tool_error": 0.5}


async def test_conversations_without_a_case_are_scored_when_no_more_can_come(path: Path) -> None:
    suite = "suite: traffic\nevaluators: [tool_error, {tool_efficiency: {scope: conversation}}]"
    async with running(path, suite) as it:
        await it.take(turn(1, "Hello", "find"), turn(2, "Again", "find"))
        assert await it.said() == {}
        await rescored(it)
        assert await it.said() == {("c", None): {"tool_efficiency": 0.5}}


async def test_pending_turns_are_scored_by_scoring_again(path: Path) -> None:
    async with running(path, evaluate=False) as before:
        await before.take(turn(1, "Refund it", "find", case_id="refund"), turn(2, "Really", "pay", case_id="refund"))
    async with running(path) as it:
        await rescored(it)
        assert [item["status"] for item in (await it.store.turns(TurnQuery())).items] == ["done", "done"]
        assert await it.said() == {("c", "refund"): {"whole": 1.0}}
