"""Workers on a real PostgreSQL: what they score, that they score it once, and what they do when others die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from a2a_eval_proxy.features.worker.command import Engine, JobScorer, WorkerAgents
from a2a_eval_proxy.features.worker.options import WorkerOptions
from a2a_eval_proxy.privacy.policy import privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_eval_proxy.store import Scored, TurnQuery
from a2a_eval_proxy.store.postgres.store import PostgresStore
from a2a_eval_proxy.store.postgres.work import MOST_TRIES
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.turn import STARTS_TRACE, Turn, TurnLinks
from a2a_tool_capture import ToolCall
from support.kept import Kept, turn
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.prefork import COMMAND
from support.processes import ChildProcess

SUITE = """
suite: orders
evaluators:
  - tool_error
  - {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}
cases:
  - id: refund
    turns: [{user: Refund it}, {user: Really}]
    expect: {tool_calls: [{name: find}, {name: pay}]}
  - id: status
    turns: [{user: Where is it?, expect: {tool_calls: [{name: find}]}}]
"""


@dataclass
class Shared:
    """A store that queues for workers, and what they store."""

    url: str
    store: PostgresStore
    kept: Kept
    folder: Path

    def options(self, suite: str | None, **others: Any) -> WorkerOptions:
        """Those of a worker with this suite (its text)."""
        if suite:
            others["suite"] = str(file := self.folder / f"{len(list(self.folder.iterdir()))}.yaml")
            file.write_text(suite)
        return WorkerOptions(store=self.url, **others)

    def scorer(self, suite: str | None, **others: Any) -> JobScorer:
        return JobScorer(self.store, WorkerAgents(self.store, self.options(suite, **others), {}))

    async def work(self, suite: str | None = SUITE, *turn_ids: str) -> int:
        """Score these turns, or all, as a worker does with a job."""
        ids = turn_ids or await self.kept.ids(limit=1000)
        return await self.scorer(suite).score(list(ids))

    async def turns(self) -> list[dict[str, Any]]:
        return (await self.store.turns(TurnQuery(limit=1000))).items

    async def said(self) -> dict[tuple[str, str | None], tuple[int, list[str]]]:
        """What was stored of conversations: of how many turns, and the outcomes."""
        return {
            (found.key.conversation_id, found.key.case_id): (
                found.turns,
                [result["status"] for result in found.evaluations],
            )
            for found in await self.store.conversations()
        }

    def rows(self, statement: str) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(statement).fetchall()

    def change(self, statement: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(statement)


@pytest.fixture
async def shared(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Shared]:
    url = postgres.new_store()
    store = PostgresStore(url, for_workers=True)
    yield Shared(url, store, Kept(store), tmp_path)
    await asyncio.to_thread(store.close)


def said(number: int, text: str, *calls: str, conversation: str = "c", **fields: Any) -> Turn:
    made = [ToolCall(name, result="done") for name in calls]
    return turn(number, user_text=text, conversation_id=conversation, tool_calls=made, **fields)


# ── scoring ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pending_turns_are_scored_with_the_cases_of_the_workers_suite(shared: Shared) -> None:
    """The proxies that stored them may know no suite."""
    await shared.kept.add(said(1, "Refund it", "find"), said(2, "Really", "pay"), said(3, "Hello", conversation="d"))
    assert await shared.work() == 3
    turns = await shared.turns()
    assert [(item["status"], item["case_id"]) for item in turns] == [("done", "refund")] * 2 + [("done", None)]
    assert [[result["evaluator"] for result in item["evaluations"]] for item in turns] == [["tool_error"]] * 3
    assert await shared.kept.ids(case="refund") == ["turn-0001", "turn-0002"]
    assert await shared.said() == {("c", "refund"): (2, ["passed"])}


async def test_a_worker_scores_a_turn_with_those_that_it_caused(shared: Shared) -> None:
    """All of them in one job, the callers first: each is done before its own caller is scored."""
    caused = [TurnLinks("", f"turn-{number - 1:04}") if number else STARTS_TRACE for number in range(3)]
    for number, links in enumerate(caused):
        text = {"user_text": f"question {number}", "state": "TASK_STATE_COMPLETED", "conversation_id": f"c{number}"}
        at = {"trace_id": "1" * 32, "agent": f"http://agent-{number}", "ended_at": 1_763_700_009.0 - number}
        await shared.kept.add(turn(number, **text, **at, links=links))
    assert await shared.work("suite: crew\nevaluators: [{delegation: {max_depth: 1}}]\ncases: []") == 3
    reasons = {item["turn_id"]: item["evaluations"][0]["reason"] for item in await shared.turns()}
    assert "depth: 2, of at most 1, at http://agent-2" in reasons["turn-0000"]
    assert reasons["turn-0001"] == "4 of 4 limits met."
    assert reasons["turn-0002"] == "no request to another agent was seen"


async def test_a_worker_scores_a_conversation_with_the_trees_of_its_turns(shared: Shared) -> None:
    suite = """
suite: crew
evaluators: [{agents_asked: {scope: conversation}}]
cases:
  - id: plan
    turns: [{user: one}, {user: two}]
    expect: {agents: [orders, refunds]}
"""
    for number, (text, agent) in enumerate((("one", "orders"), ("two", "refunds"))):
        trace, state = {"trace_id": f"{number}" * 32}, {"state": "TASK_STATE_COMPLETED"}
        asks = said(2 * number, text, agent="http://desk", links=STARTS_TRACE, **trace, **state)
        links = TurnLinks("", asks.turn_id)
        below = said(
            2 * number + 1, "to you", "find", conversation=agent, agent_name=agent, links=links, **trace, **state
        )
        await shared.kept.add(asks, below)
    assert await shared.work(suite) == 4
    assert await shared.said() == {("c", "plan"): (2, ["passed"])}


async def test_a_job_that_comes_twice_adds_what_a_worker_that_died_left_undone(shared: Shared) -> None:
    await shared.kept.add(said(1, "Refund it", "find"), said(2, "Really", "pay"))
    assert await shared.work() == 2
    before = await shared.turns()
    assert await shared.work("suite: other\nevaluators: [tool_call_count]\ncases: []") == 0
    shared.change("DELETE FROM conversations")  # as if it had died before this was written
    assert await shared.work() == 0
    assert await shared.said() == {("c", "refund"): (2, ["passed"])}
    assert await shared.turns() == before


async def test_two_workers_with_the_same_turns(shared: Shared) -> None:
    await shared.kept.add(*(said(number, "Where is it?", "find", conversation=f"c{number}") for number in range(40)))
    scored = await asyncio.gather(*(shared.work() for _ in range(4)))
    assert sum(scored) == 40
    assert set(shared.rows("SELECT status FROM turns")) == {("done",)}
    assert len(await shared.said()) == 40


async def test_turns_of_a_conversation_in_several_jobs(shared: Shared) -> None:
    """Whoever comes last scores the conversation; the later turn knows its place although the earlier is not done."""
    await shared.kept.add(said(1, "Refund it", "find"))
    await shared.kept.add(said(2, "Really", "pay"))
    await shared.work(SUITE, "turn-0002")
    assert await shared.said() == {}
    assert (await shared.turns())[1]["case_id"] == "refund"
    await shared.work(SUITE, "turn-0001")
    assert await shared.said() == {("c", "refund"): (2, ["passed"])}


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_turns_without_a_job_are_queued(shared: Shared) -> None:
    await shared.kept.add(said(1, "queued"), said(2, "its job is gone"), said(3, "scored"))
    await shared.kept.add(said(4, "a proxy was to score it"))
    await shared.kept.finish(Scored("turn-0003", []))
    shared.change("UPDATE turns SET job_id = 999999 WHERE turn_id IN ('turn-0002', 'turn-0003')")
    shared.change("UPDATE turns SET job_id = NULL WHERE turn_id = 'turn-0004'")
    assert [await shared.store.work.queue_abandoned(after_s) for after_s in (600, 0, 0)] == [1, 1, 0]
    queued = shared.rows("SELECT turn_ids FROM jobs ORDER BY id OFFSET 2")
    assert queued == [(["turn-0002"],), (["turn-0004"],)]


async def until(shared: Shared, statement: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(shared.rows, statement):
            await asyncio.sleep(0.02)


@asynccontextmanager
async def working(
    shared: Shared, score: Callable[[Sequence[str]], Awaitable[int]] | None = None, **options: Any
) -> AsyncIterator[Engine]:
    """An engine that runs for the time of the block."""
    score = score or shared.scorer(None).score
    engine = Engine(shared.options(None, stalled_after=2.0, **options), shared.store.work, score)
    running = asyncio.create_task(engine.run())
    yield engine
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled(), "it ended by an error of its own"


async def test_an_engine_works_until_it_is_cancelled(shared: Shared) -> None:
    await shared.kept.add(*(said(number, "Where is it?", "find") for number in range(70)))
    async with working(shared) as engine:
        await until(shared, "SELECT WHERE NOT EXISTS (SELECT FROM jobs)")
        await shared.kept.add(said(99, "later"))
        await until(shared, "SELECT FROM turns WHERE turn_id = 'turn-0099' AND status = 'done'")
    assert engine.scored == 71
    assert await shared.kept.ids(status="pending") == []


async def test_an_engine_ends_when_cancelled_though_the_database_refuses_its_farewell(shared: Shared) -> None:
    async with asyncio.timeout(PATIENCE_S), working(shared):
        await until(shared, "SELECT FROM workers")
        shared.change("ALTER TABLE workers RENAME TO gone")


async def test_an_engine_takes_over_the_job_of_a_worker_that_died(
    shared: Shared, caplog: pytest.LogCaptureFixture
) -> None:
    """Its job is due again, since it does not put that off any more."""
    await shared.kept.add(said(1, "Where is it?"))
    (job,) = await shared.store.work.take(1, 0.1)
    async with working(shared):
        await until(shared, "SELECT FROM turns WHERE status = 'done'")
    assert f"job {job.id} is tried again" in caplog.text


async def test_a_job_is_of_its_worker_as_long_as_that_puts_it_off(shared: Shared) -> None:
    work = shared.store.work
    await shared.kept.add(said(1, "Where is it?"))
    (job,) = await work.take(4, 600)
    assert await work.take(4, 600) == []
    await work.due_in(0, [job])
    (taken,) = await work.take(4, 600)
    assert (taken.id, taken.tries) == (job.id, 2)
    await work.due_in(0, [job])  # it is another worker's now
    await work.done(job)
    assert await work.take(4, 600) == []
    await work.due_in(0, [taken], given_back=True)
    assert [one.tries for one in await work.take(4, 600)] == [2]


async def test_a_job_over_which_workers_keep_dying_is_given_up(shared: Shared) -> None:
    await shared.kept.add(said(1, "Where is it?"), said(2, "Where is it?", conversation="d"))
    shared.change(f"UPDATE jobs SET tries = {MOST_TRIES}")
    await shared.kept.add(said(3, "later"))
    async with working(shared):
        await until(shared, "SELECT FROM turns WHERE turn_id = 'turn-0003' AND status = 'done'")
    assert await shared.kept.ids(status="pending") == ["turn-0001", "turn-0002"]


async def test_what_is_under_way_at_the_end_goes_to_another_worker(shared: Shared) -> None:
    begun = asyncio.Event()

    async def score(turn_ids: Sequence[str]) -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    await shared.kept.add(said(1, "x"))
    async with working(shared, score, timeouts=Timeouts(shutdown=0.0)):
        await begun.wait()
    assert shared.rows("SELECT tries, due_at <= now() FROM jobs") == [(0, True)]
    assert shared.rows("SELECT worker FROM workers") == []


async def test_a_job_that_fails_is_tried_again_later(shared: Shared, caplog: pytest.LogCaptureFixture) -> None:
    await shared.kept.add(said(1, "x"))

    async def fail(turn_ids: Sequence[str]) -> int:
        raise LookupError(f"no scoring of {turn_ids} today")

    async with working(shared, fail):
        await until(shared, "SELECT FROM jobs WHERE tries = 1 AND due_at BETWEEN now() AND now() + interval '2 s'")
    assert "1 turn(s) could not be scored; they are tried again later" in caplog.text
    assert "LookupError: no scoring of" in caplog.text


async def test_an_engine_waits_for_a_database_that_goes_away_while_a_job_ends(
    shared: Shared, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "a2a_eval_proxy.features.worker")
    scorer = shared.scorer(None)
    scored, stopped = asyncio.Event(), asyncio.Event()

    async def score(turn_ids: Sequence[str]) -> int:
        number = await scorer.score(turn_ids)
        scored.set()
        await stopped.wait()  # the turn is done, but its job is not; the engine may cancel it meanwhile
        return number

    async def until_logged(line: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while line not in caplog.text:
                await asyncio.sleep(0.02)

    async with working(shared, score):
        await shared.kept.add(said(1, "before"))
        await scored.wait()
        await asyncio.to_thread(postgres.stop)
        stopped.set()
        await until_logged("the database cannot be reached: ")
        shared.store.add([said(2, "meanwhile")], lambda: None)
        await asyncio.to_thread(postgres.start)
        await until(shared, "SELECT FROM turns WHERE turn_id = 'turn-0002' AND status = 'done'")
        await until(shared, "SELECT WHERE NOT EXISTS (SELECT FROM jobs)")
        await until_logged("the database can be reached again")
    assert await shared.kept.ids(status="done") == ["turn-0001", "turn-0002"]
    assert caplog.text.count("cannot be reached") == 1


PAYMENTS = """
suite: {name}
evaluators: [tool_call_args, {{tool_trajectory: {{scope: conversation, mode: in_order, id: whole}}}}]
cases:
  - id: {name}
    turns:
      - user: Pay ann@example.com
        expect: {{tool_calls: [{{name: {tool}, arguments: {{to: ann@example.com}}}}]}}
      - user: Really
        expect: {{tool_calls: [{{name: {tool}, arguments: {{to: ann@example.com}}}}]}}
"""
RULES, KEY = "email:hash", "a key"


@pytest.fixture
def store(shared: Shared) -> PostgresStore:
    return shared.store


def write(folder: Path, name: str, tool: str) -> str:
    file = folder / f"{name}.yaml"
    file.write_text(PAYMENTS.format(name=name, tool=tool))
    return str(file)


def paid(number: int, agent: str | None, text: str = "Pay ann@example.com", tool: str = "pay") -> Turn:
    """As the proxy stores it: that of `refunds` is redacted. The conversations of all agents have the same id."""
    made = turn(
        number,
        user_text=text,
        conversation_id="c",
        agent_name=agent,
        tool_calls=[ToolCall(tool, {"to": "ann@example.com"}, result="done")],
    )
    return privacy_of(parse_rules(RULES), KEY).redacted(made) if agent == "refunds" else made


async def found(store: PostgresStore) -> dict[tuple[str | None, str | None, str], int]:
    """The number of scored turns by agent, case and status of the first result."""
    counts: dict[tuple[str | None, str | None, str], int] = {}
    for item in (await store.turns(TurnQuery(limit=100))).items:
        key = item.get("agent_name"), item["case_id"], item["evaluations"][0]["status"] if item["evaluations"] else ""
        counts[key] = counts.get(key, 0) + 1
    return counts


async def test_each_agent_has_its_suite_and_rules_and_others_the_common_one(
    store: PostgresStore, tmp_path: Path
) -> None:
    config: dict[str, Any] = {
        "store": "postgresql://h/turns",
        "suite": write(tmp_path, "common", "pay"),
        "agents": {
            "orders": {"upstream": "http://o", "suite": write(tmp_path, "orders", "ship"), "push": "relay"},
            "refunds": {"upstream": "http://r", "redact": RULES, "redact_key": KEY, "judge_budget": "5/h"},
        },
    }
    settings = load(WorkerOptions, config)
    agents, metrics = WorkerAgents(store, settings, settings.each_agent), Metrics()
    names = ("orders", "refunds", "search", None)
    turns = [paid(number, name) for number, name in enumerate(names)]
    turns += [paid(len(names) + number, name, "Really") for number, name in enumerate(names)]
    await Kept(store).add(*turns)
    assert await JobScorer(store, agents, metrics).score([one.turn_id for one in turns]) == 8
    assert await found(store) == {
        ("orders", "orders", "failed"): 2,
        ("refunds", "common", "passed"): 2,
        ("search", "common", "passed"): 2,
        (None, "common", "passed"): 2,
    }
    whole = {(said.key.agent_name, said.key.case_id): said.turns for said in await store.conversations()}
    assert whole == {(name, "orders" if name == "orders" else "common"): 2 for name in names}
    assert {name for name, _ in metrics.agent_evaluations} == {"orders", "refunds"}


async def test_a_turn_of_a_case_of_several_agents_is_scored_by_what_the_turn_of_its_agent_expects(
    store: PostgresStore, tmp_path: Path
) -> None:
    """As traffic, a conversation with each agent, the client of which names the case; and as one that `run` held."""
    file = tmp_path / "several.yaml"
    file.write_text(
        "suite: s\nevaluators: [tool_call_args, {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}]\n"
        "cases:\n- id: both\n  expect: {tool_calls: [{name: pay, arguments: null}, {name: ship, arguments: null}]}\n"
        "  turns:\n"
        "  - {user: Do it, agent: orders, expect: {tool_calls: [{name: pay, arguments: {to: ann@example.com}}]}}\n"
        "  - {user: Do it, agent: refunds, expect: {tool_calls: [{name: ship, arguments: {to: ann@example.com}}]}}\n"
    )
    agents = {name: {"upstream": "http://a"} for name in ("orders", "refunds")}
    settings = load(WorkerOptions, {"store": "postgresql://h/turns", "suite": str(file), "agents": agents})
    turns = []
    for number, (name, tool) in enumerate([("orders", "pay"), ("refunds", "ship")] * 2):
        made = turn(number, user_text="Do it", conversation_id="c", agent_name=name, case_id="both")
        made.tool_calls = [ToolCall(tool, {"to": "ann@example.com"}, result="done")]
        if number > 1:
            made.run, made.attempt = "held", {"number": 1, "planned": 1, "enough": None, "seed": None}
        turns.append(made)
    await Kept(store).add(*turns)
    scorer = JobScorer(store, WorkerAgents(store, settings, settings.each_agent))
    assert await scorer.score([one.turn_id for one in turns]) == 4
    assert await found(store) == {(name, "both", "passed"): 2 for name in agents}
    whole = {(one.key.agent_name, one.turns): one.evaluations[0]["status"] for one in await store.conversations()}
    assert whole == {(None, 2): "passed"}, "those of traffic lack the turns of the others"


async def test_a_worker_reads_the_file_of_the_proxies(shared: Shared, tmp_path: Path) -> None:
    """The file has settings of ports, and secrets of the way to agents, that a worker does not need."""
    config = tmp_path / "config.yaml"
    agents = {
        "search": {"upstream": "http://s", "upstream_header": {"Authorization": "Bearer ${NOT_SET_HERE}"}},
        "orders": {"upstream": "http://o", "suite": write(tmp_path, "orders", "ship")},
    }
    common = write(tmp_path, "common", "pay")
    config.write_text(json.dumps({"listen": "0.0.0.0:8080", "suite": common, "evaluate": False, "agents": agents}))
    expected = {("orders", "orders", "failed"): 1, ("search", "common", "passed"): 1}
    with ChildProcess([COMMAND, "worker", "--config", config, "--store", shared.url]) as worker:
        assert "2 agents" in await asyncio.to_thread(worker.read_line)
        await shared.kept.add(paid(1, "orders"), paid(2, "search"))
        async with asyncio.timeout(PATIENCE_S):
            while await found(shared.store) != expected:
                await asyncio.sleep(0.05)
        worker.terminate()
        await asyncio.to_thread(worker.wait, PATIENCE_S)
        assert "Traceback" not in worker.stderr()
