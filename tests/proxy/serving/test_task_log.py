"""Tasks and turns over restarts and replicas, over a real agent and a real store: each call in one turn, each turn
completed once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.clock import CLOCK
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.runs.stored_turns import open_existing_store, turns_of
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import Finding, Severity
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from tool_call_evaluators.suite import parse_suite

Json = dict[str, Any]


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with stepwise_agent() as agent:
        yield agent.url


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of an empty store."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return str(tmp_path / "turns.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_store()


ON_POSTGRES = pytest.mark.parametrize("store", ["postgres"], indirect=True)
ON_BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)


def settings(agent: str, store: str, **more: Any) -> Settings:
    values: Json = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": None, "evaluate": False, **more}
    return Settings(upstream=agent, store=store, **values)


async def rpc(proxy: RunningProxy, method: str, params: Json) -> Json:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{proxy.url}{RPC_PATH}", json=body, headers={"A2A-Version": "1.0"})
    result: Json = answer.json()["result"]
    return result


async def say(proxy: RunningProxy, text: str, task: Json | None = None, *, wait: bool = True) -> Json:
    """The task that the message led to."""
    message: Json = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    if task is not None:
        message |= {"contextId": task["contextId"]} | ({"taskId": task["id"]} if "id" in task else {})
    answer: Json = await rpc(
        proxy, "SendMessage", {"message": message, "configuration": {"returnImmediately": not wait}}
    )
    task_told: Json = answer["task"]
    return task_told


async def poll(proxy: RunningProxy, task: Json) -> str:
    state: str = (await rpc(proxy, "GetTask", {"id": task["id"]}))["status"]["state"]
    return state


async def until_completed(proxy: RunningProxy, task: Json) -> None:
    while await poll(proxy, task) != "TASK_STATE_COMPLETED":
        pass


async def until_open(proxy: RunningProxy) -> Json:
    """The open turn in the store, once it is there."""
    while not (found := [turn for turn in await proxy.turns() if turn["status"] == "open"]):
        await asyncio.sleep(0.01)
    return found[0]


def open_gate(agent: str, name: str) -> None:
    httpx.post(f"{agent}/_control/open", params={"gate": name}, trust_env=False).raise_for_status()


def told(turns: list[Json]) -> list[tuple[str, list[int], str]]:
    """State, orders refunded and text of each turn, in the order in which they began: replicas store in any order."""
    return [
        (
            turn["state"].removeprefix("TASK_STATE_"),
            [call["arguments"]["order"] for call in turn["tool_calls"]],
            turn["response_text"],
        )
        for turn in sorted(turns, key=lambda turn: str(turn["started_at"]))
    ]


def codes(turns: list[Json]) -> list[list[str]]:
    return [[finding["code"] for finding in turn["findings"]] for turn in turns]


THREE_TURNS = [
    ("INPUT_REQUIRED", [0], "answer 0"),
    ("INPUT_REQUIRED", [1], "answer 1"),
    ("COMPLETED", [2], "answer 2"),
]

# ── tasks that go on ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ids", ["own", "numbered", "none"])
async def test_a_task_goes_on_after_a_restart(store: str, ids: str) -> None:
    with stepwise_agent(ids) as agent:
        task = None
        for text in ("ask", "ask", "done"):
            async with run_proxy(settings(agent.url, store)) as proxy:
                task = await say(proxy, text, task)
                await proxy.flush(PATIENCE_S)
                turns = await proxy.turns()
    assert told(turns) == THREE_TURNS
    reused = ["id_reused"] if ids == "numbered" else []
    assert codes(turns) == [[], reused, reused]


@ON_POSTGRES
async def test_a_task_goes_on_with_another_replica_and_comes_back(agent: str, store: str) -> None:
    async with run_proxy(settings(agent, store)) as one, run_proxy(settings(agent, store)) as two:
        task = await say(one, "ask")
        task = await say(two, "ask", task)
        await say(one, "done", task)
        for proxy in (one, two):
            await proxy.flush(PATIENCE_S)
        turns = await one.turns()
    assert told(turns) == THREE_TURNS
    assert codes(turns) == [[], [], []]


def book_of(proxy: RunningProxy) -> TurnBook:
    return proxy.control.lines[""].capture.book


@pytest.mark.parametrize("severity", [Severity.INFO, Severity.WARNING])
@ON_BOTH
async def test_findings_that_come_late_at_once_are_all_stored(agent: str, store: str, severity: Severity) -> None:
    """Those of two replicas, too; the turn is scored again if its calls are not known any more."""
    async with (
        run_proxy(settings(agent, store, evaluate=True)) as proxy,
        run_proxy(settings(agent, store, evaluate=True)) if store.startswith("postgres") else nullcontext() as other,
    ):
        task = await say(proxy, "ask")
        await proxy.flush(PATIENCE_S)
        for number in range(9):
            book = book_of(proxy if other is None or number % 2 else other)
            book.report(task["id"], Finding("calls_missed", f"{number}", severity, "capture"), CLOCK.now())
        for one in filter(None, (proxy, other)):
            await one.flush(PATIENCE_S)
        (turn,) = await proxy.turns()
        assert sorted(finding["message"] for finding in turn["findings"]) == [f"{number}" for number in range(9)]
        unknown = severity is Severity.WARNING
        assert (turn["status"], turn["calls"]) == ("done", "unknown" if unknown else "seen")
        assert {one["status"] for one in turn["evaluations"]} == {"skipped" if unknown else "passed"}


async def test_turns_that_are_kept_without_content_are_known_by_their_ids(agent: str, store: str) -> None:
    task = None
    for text in ("ask", "done"):
        async with run_proxy(settings(agent, store, no_content=True, evaluate=True)) as proxy:
            task = await say(proxy, text, task)
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()
    assert [[call["name"] for call in turn["tool_calls"]] for turn in turns] == [["refund"], ["refund"]]
    assert [turn["tool_calls"][0]["id"][-2:] for turn in turns] == ["-0", "-1"]
    assert codes(turns) == [[], []]


# ── turns that outlive their exchange ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("store", "first_ends"), [("sqlite", True), ("postgres", True), ("postgres", False)], indirect=["store"]
)
async def test_an_open_turn_is_completed_by_another_process_once(agent: str, store: str, first_ends: bool) -> None:
    gate = uuid.uuid4().hex
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(run_proxy(settings(agent, store)))
        task = await say(first, f"gate {gate}", wait=False)
        turn = await until_open(first)
        if first_ends:
            await stack.aclose()
        second = await stack.enter_async_context(run_proxy(settings(agent, store)))
        assert await poll(second, task) == "TASK_STATE_WORKING"
        open_gate(agent, gate)
        await until_completed(second, task)
        await second.flush(PATIENCE_S)
        if not first_ends:
            await until_completed(first, task)
            await first.flush(PATIENCE_S)
            assert sum(one.control.serving.metrics.turns_closed for one in (first, second)) == 1
        turns = await second.turns()
    assert told(turns) == [("COMPLETED", [0], "answer 0")]
    assert codes(turns) == [[]]
    assert (turns[0]["turn_id"], turns[0]["status"]) == (turn["turn_id"], "pending")
    assert turns[0]["ended_at"] is not None


async def test_evaluate_does_not_score_what_is_open(agent: str, store: str) -> None:
    async with run_proxy(settings(agent, store, run="nightly")) as proxy:
        await say(proxy, f"gate {uuid.uuid4().hex}", wait=False)
        await say(proxy, "done")
        await until_open(proxy)
    conclusion = await evaluate_store(parse_suite("suite: s\nevaluators: [tool_error]\n"), store, "nightly")
    assert not conclusion.verdict.passed
    async with open_existing_store(store) as kept:
        statuses = [turn["status"] async for turn in turns_of(kept, None)]
    assert sorted(statuses) == ["done", "open"]
