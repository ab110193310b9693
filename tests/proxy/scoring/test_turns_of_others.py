"""Turns that are scored with those that they caused: agents of a2a-sdk that ask each other through one proxy."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.features.graph.trees import StoredTrees
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, Privacy, privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.scoring import evidence
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store import Scored, SqliteStore
from a2a_eval_proxy.turn import STARTS_TRACE, Turn, TurnLinks
from opentelemetry.context import Context
from support.kept import Kept, turn
from support.patience import PATIENCE_S
from support.proxied import proxied
from tool_call_evaluators import parse_suite
from tool_call_evaluators.agent_tree import AgentTurn, walk
from tool_call_evaluators.report.tree import tree_text
from tools.soak.trees.crew import Crew, http_client, running_crew
from tools.soak.trees.plan import ANSWERS, FAILS, NOTHING, WHOLE, Message

OF_C = Message("o", "c", WHOLE, [ANSWERS])
OF_B = Message("n", "b", WHOLE, [FAILS, ANSWERS], [[OF_C]])
ASKS = Message("m", "a", NOTHING, [ANSWERS], [[OF_B]])


def suite(text: str) -> str:
    """As JSON, which is YAML."""
    expect: dict[str, Any] = {
        "agents": ["b", {"name": "c", "at_most": 2}, {"name": "d", "at_most": 0}],
        "tool_calls_count": {"ask": ["=", 4]},
    }
    return json.dumps(
        {
            "suite": "crew",
            "depth": "all",
            "evaluators": [
                "agents_asked",
                {"delegation": {"max_failures": 0}},
                "tool_call_count",
                *(
                    {name: {"scope": "conversation", "id": f"{name}, all"}}
                    for name in ("agents_asked", "tool_call_count")
                ),
            ],
            "cases": [{"id": "plan", "turns": [{"user": text, "expect": expect}], "expect": expect}],
        }
    )


@pytest.fixture
def case(tmp_path: Path) -> Path:
    file = tmp_path / "suite.yaml"
    file.write_text(suite(ASKS.text(">m/0", 0)), "utf-8")
    return file


async def test_a_turn_that_is_bound_twice_while_it_waits_for_its_tree_is_scored_both_times(tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(suite("of the case"), "utf-8")

    def task(name: str, state: str) -> dict[str, Any]:
        return {"id": name, "contextId": name, "status": {"state": f"TASK_STATE_{state}"}}

    async with proxied(tmp_path, suite=str(file)) as it:
        await it.answers({"task": task("above", "COMPLETED")}, "of no case")
        await it.flushed()
        (above,) = await it.turns()
        trace = {
            "traceparent": f"00-{above['trace_id']}-00f067aa0ba902b7-01",
            "tracestate": f"a2a-eval-proxy={above['turn_id']}",
        }
        await it.answers({"task": task("below", "WORKING")}, "of no case", **trace)
        for _ in range(2):
            bound = await it.admin.post(f"/api/turns/{above['turn_id']}/case", json={"case_id": "plan"})
            assert bound.is_success, bound.text
        await it.asks("GetTask", {"id": "below"}, task("below", "COMPLETED"))
        done = await it.admin.post("/api/flush", params={"timeout": 20}, timeout=60)
        assert done.json() == {"done": True, "pending": 0, "open": 0}


async def test_a_turn_is_scored_with_the_turns_that_it_caused(tmp_path: Path, case: Path) -> None:
    crew = Crew()
    store = tmp_path / "turns.db"
    with running_crew(crew, "abcd") as running:
        agents = {name: {"upstream": f"{running.url}/{name}"} for name in "abcd"}
        given = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": str(store)}
        settings = load(Settings, {**given, "run": "day", "suite": str(case), "agents": agents})
        async with run_proxy(settings) as proxy, http_client() as client:
            crew.entrance = lambda agent: f"{proxy.url}/agents/{agent}"
            await crew.ask(client, ASKS, "", Context())
            await crew.done()
            async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:
                await admin.post("/api/flush", params={"timeout": 30})
                items = (await admin.get("/api/turns")).json()["items"]
                (first,) = (item for item in items if item["agent_name"] == "a")
                talk = (await admin.get(f"/api/conversations/{first['conversation_id']}")).json()
                page = (await admin.get(f"/turns/{first['turn_id']}")).text
            tree = await StoredTrees(proxy.control.store).below(first["turn_id"])
    assert tree is not None
    shown = re.findall(r"^( *)[*-] (\w+): (\w+), [^,]+, (.*?)  ", tree_text(tree), re.MULTILINE)
    assert shown == [
        ("", "a", "completed", "calls ask, ask"),
        ("  ", "b", "failed", "calls ask"),
        ("    ", "c", "completed", "no calls"),
        ("  ", "b", "completed", "calls ask"),
        ("    ", "c", "completed", "no calls"),
    ]
    made = re.search(r">(\d+) and (\d+) of asked agents<", page)
    assert made is not None
    assert int(made[1]) + int(made[2]) == 4
    whole = {item["evaluator"]: item for item in talk["evaluations"]}
    assert {name: item["status"] for name, item in whole.items()} == {
        "agents_asked, all": "passed",
        "tool_call_count, all": "passed",
    }
    assert len(items) == 5
    results = {item["evaluator"]: item for item in first["evaluations"]}
    assert results["agents_asked"]["score"] == 1, results["agents_asked"]
    assert results["agents_asked"]["details"]["asked"] == {"b": 2, "c": 2, "d": 0}
    assert "first b, asked by a" in results["delegation"]["reason"]
    assert results["tool_call_count"]["score"] == 1, results["tool_call_count"]
    stricter = case.read_text("utf-8").replace('"at_most": 2', '"at_most": 1')
    await evaluate_store(parse_suite(stricter), str(store), None)
    with closing(SqliteStore(str(store))) as opened:
        scored_again = await opened.turn(first["turn_id"]) or {}
    again = {item["evaluator"]: item for item in scored_again["evaluations"]}
    assert "c was asked 2 times, at most 1 expected" in again["agents_asked"]["reason"]
    assert again["delegation"]["reason"] == results["delegation"]["reason"]


async def test_a_turn_waits_for_those_that_it_caused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteStore(str(tmp_path / "turns.db"))
    read: list[str] = []

    class Counted(StoredTrees):
        async def below(self, turn_id: str, privacy: Privacy | None = None) -> AgentTurn | None:
            found = await super().below(turn_id, privacy)
            read.append(turn_id)
            return found

    monkeypatch.setattr(evidence, "turn_trees", Counted)
    monkeypatch.setattr(evidence, "FIRST_PAUSE_S", 0.001)
    kept, parent = Kept(store), turn(0, trace_id="1" * 32, links=STARTS_TRACE)

    def asked_by(above: Turn, number: int) -> Turn:
        links = TurnLinks("", above.turn_id)
        return turn(number, trace_id="1" * 32, links=links, agent=f"http://{number}", status="pending")

    child = asked_by(parent, 1)
    await kept.add(parent, child, asked_by(child, 2))
    waiting = asyncio.create_task(evidence.awaited_tree(store, parent, NO_PRIVACY))
    for number in (1, 2):  # the tree is read again only when the turn is over that was not
        async with asyncio.timeout(PATIENCE_S):
            while len(read) < number:
                await asyncio.sleep(0)
        assert not waiting.done()
        await kept.finish(Scored(f"turn-000{number}", []))
    tree = await waiting
    assert tree is not None
    assert ([one.turn.status for one in walk(tree)][1:], len(read)) == (["done", "done"], 3)
    await asyncio.to_thread(store.close)


async def test_evaluators_see_the_turns_of_others_redacted(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "turns.db"))
    parent = turn(0, trace_id="1" * 32, links=STARTS_TRACE)
    child = turn(1, trace_id="1" * 32, links=TurnLinks("", parent.turn_id), agent="http://other", user_text="to a@b.io")
    await Kept(store).add(parent, child)
    tree = await StoredTrees(store).below(parent.turn_id, privacy_of(parse_rules("email"), "key"))
    assert tree is not None
    assert [one.user_text for one in tree.children] == ["to [email]"]
    await asyncio.to_thread(store.close)
