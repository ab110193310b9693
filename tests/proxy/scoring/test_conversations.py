"""Conversations as a whole: scored when all turns of their case are done, once for each time they change."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from a2a_eval_proxy.privacy.policy import NO_PRIVACY
from a2a_eval_proxy.scoring.case_book import RegisteredCase
from a2a_eval_proxy.scoring.rescoring import Rescoring
from a2a_eval_proxy.scoring.scorer import MAX_HISTORY, ThreadExecutor
from a2a_eval_proxy.store import TurnQuery, every_turn
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import Turn
from support.live import heard
from support.registered import registered
from support.scoring import Scoring, scoring, turn_with
from tool_call_evaluators.evaluator import AsyncEvaluator, Measurement
from tool_call_evaluators.model import EvalCase
from tool_call_evaluators.suite import parse_case

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
def witness() -> Iterator[type[Witness]]:
    Witness.seen.clear()
    with registered(Witness):
        yield Witness


def turn(number: int, text: str, *calls: str, conversation: str = "c", **fields: Any) -> Turn:
    said = {"user_text": text, "response_text": f"re: {text}", "state": "TASK_STATE_COMPLETED"}
    return turn_with(number, *calls, conversation_id=conversation, **said, **fields)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "turns.db"


# Batches of turns, each (run and) conversation, text and calls; after each batch the scores of conversations.
TALKS: dict[str, list[tuple[list[tuple[str, ...]], dict[str, float]]]] = {
    "scored when the last turn of its case is done": [
        ([("c", "Refund it", "find")], {}),
        ([("c", "Really", "pay")], {"c": 1.0}),
    ],
    "in one batch": [([("c", "Refund it", "find"), ("c", "Really", "refuse")], {"c": 0.5})],
    "apart": [
        (
            [
                ("c1", "Refund it", "find"),
                ("c2", "Refund it"),
                ("c1", "Really", "pay"),
                ("c2", "Really"),
                ("c3", "Refund it"),
                ("another c1", "Refund it", "find"),
            ],
            {"c1": 1.0, "c2": 0.0},
        )
    ],
    "scored again where it goes on": [
        ([("c", "Refund it", "find"), ("c", "Really", "pay")], {"c": 1.0}),
        ([("c", "And another", "pay")], {"c": pytest.approx(2 / 3)}),
    ],
    "none without a name": [([("", "Refund it"), ("", "Really")], {})],
    "none without a case": [([("c", "Something else")], {})],
}


@pytest.mark.parametrize("name", TALKS)
async def test_conversations(name: str, path: Path) -> None:
    numbers, known = itertools.count(), {}
    async with scoring(path, SUITE) as it:
        for batch, scores in TALKS[name]:
            with it.bus.listen() as events:
                turns = []
                for place, text, *calls in batch:
                    run, _, conversation = place.rpartition(" ")
                    turns.append(turn(next(numbers), text, *calls, conversation=conversation, run=run or "nightly"))
                await it.take(*turns)
                done = [event.name for event in heard(events)].count("conversation.done")
            assert await it.scores() == {(name, "refund"): {"whole": score} for name, score in scores.items()}
            assert done == sum(known.get(name) != score for name, score in scores.items())
            known = scores
        assert it.pipeline.depth == 0


async def test_a_registered_case_with_evaluators_of_its_own(path: Path) -> None:
    async with scoring(path, "suite: x\nevaluators: [tool_error]\ntools: [{name: find}]") as it:
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
        (last,) = await it.stored(conversation="e")
        assert [result["evaluator"] for result in last["evaluations"]] == ["tool_error"]


async def test_what_a_crash_left_unscored_is_scored_after_a_restart(path: Path) -> None:
    async with scoring(path, SUITE, evaluate=False) as before:
        await before.take(turn(1, "Refund it", "find", case_id="refund"))
    async with scoring(path, SUITE) as after:
        await after.resume()
        await after.take(turn(2, "Really", "pay"))
        assert await after.scores() == {("c", "refund"): {"whole": 1.0}}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DELETE FROM conversations")  # as if it had died before this was written
    async with scoring(path, SUITE) as again:
        await again.resume()
        assert await again.scores() == {("c", "refund"): {"whole": 1.0}}
        assert await again.store.unscored_conversations(1000) == []


async def test_resuming_one_run_leaves_the_others_alone(path: Path) -> None:
    async with scoring(path, SUITE, evaluate=False) as before:
        await before.take(*(turn(n, "Refund it", run=run, case_id="refund") for n, run in enumerate(["a", "b", "a"])))
    async with scoring(path, SUITE) as after:
        assert await after.resume("a") == 2
        pending = await after.stored(status="pending")
        assert [item["run"] for item in pending] == ["b"]


async def test_a_turn_is_judged_in_the_light_of_those_before_it(path: Path, witness: type[Witness]) -> None:
    suite = f"suite: x\nevaluators: [{witness.name}]\ncases: [{{id: talk, turns: [{{user: one}}, {{user: two}}]}}]"
    async with scoring(path, suite) as it:
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
    async with scoring(path, f"suite: x\nevaluators: [{witness.name}]") as it:
        await it.take(*(turn(number, f"text {number}") for number in range(MAX_HISTORY + 5)))
        last = next(case for case in witness.seen if case.user_text == f"text {MAX_HISTORY + 4}")
        assert [past.user_text for past in last.history] == [f"text {n}" for n in range(4, MAX_HISTORY + 4)]


async def test_evaluators_of_conversations_see_the_turns_with_their_results(path: Path, witness: type[Witness]) -> None:
    suite = SUITE.replace("tool_trajectory: {", f"{witness.name}: {{").replace("mode: in_order, ", "")
    async with scoring(path, suite) as it:
        await it.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
        (seen,) = witness.seen
        turns = [(it.user_text, [result.evaluator for result in it.results]) for it in seen.turns or ()]
        assert turns == [("Refund it", ["tool_error"]), ("Really", ["tool_error"])]
        assert ([call.name for call in seen.tool_calls], seen.response_text) == (["find", "pay"], "re: Really")
        assert [tool.name for tool in seen.tools or ()] == ["find"]


async def test_a_conversation_that_cannot_be_read_is_errored(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scoring(path, SUITE) as it:

        async def locked(query: TurnQuery) -> Any:
            raise sqlite3.OperationalError("database is locked")

        monkeypatch.setattr(it.store, "turns", locked)
        await it.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
        ((_, said),) = (await it.scores()).items()
        assert said == {"whole": None}
        assert it.metrics.evaluations["whole", "errored"] == 1


# ── scoring again ───────────────────────────────────────────────────────────────────────────────────────────


async def rescored(it: Scoring) -> dict[str, str]:
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
    async with scoring(path, SUITE) as before:
        await before.take(turn(1, "Refund it", "find"), turn(2, "Really", "pay"))
    other = f"""
suite: other
evaluators: [tool_error, tool_efficiency, {{{witness.name}: {{scope: conversation}}}}]
cases: [{{id: renamed, turns: [{{user: Refund it}}, {{user: Really}}]}}]
"""
    for _ in range(2):
        witness.seen.clear()
        async with scoring(path, other) as it:
            moved = await rescored(it)
            items = await it.stored()
            assert [[result["evaluator"] for result in item["evaluations"]] for item in items] == [
                ["tool_error", "tool_efficiency"]
            ] * 2
            assert [item["case_id"] for item in items] == ["refund", "refund"]  # the store keeps what it was told
            assert moved == {"turn-0001": "renamed", "turn-0002": "renamed"}
            assert (await it.scores())["c", "renamed"] == {witness.name: 1.0}
            assert len(witness.seen) == 1  # although its turns came in two pages


async def test_results_of_evaluators_that_the_suite_does_not_have_stay(path: Path) -> None:
    async with scoring(path, "suite: a\nevaluators: [tool_error, tool_efficiency]") as before:
        await before.take(turn(1, "Hello", "find"))
    async with scoring(path, "suite: b\nevaluators: [{tool_error: {threshold: 0.5}}]") as it:
        await rescored(it)
        (item,) = await it.stored()
        found = {result["evaluator"]: result["threshold"] for result in item["evaluations"]}
        assert found == {"tool_efficiency": 1.0, "tool_error": 0.5}


async def test_conversations_without_a_case_are_scored_when_no_more_can_come(path: Path) -> None:
    suite = "suite: traffic\nevaluators: [tool_error, {tool_efficiency: {scope: conversation}}]"
    async with scoring(path, suite) as it:
        await it.take(turn(1, "Hello", "find"), turn(2, "Again", "find"))
        assert await it.scores() == {}
        await rescored(it)
        assert await it.scores() == {("c", None): {"tool_efficiency": 0.5}}
