"""A worker with the config file of the proxies scores the turns of each agent by the suite and rules of that agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.features.worker.job_scorer import JobScorer, WorkerAgents
from a2a_eval_proxy.features.worker.options import WorkerOptions
from a2a_eval_proxy.privacy.policy import privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.store import TurnQuery
from a2a_eval_proxy.store.postgres.store import PostgresStore
from a2a_eval_proxy.telemetry.counters import Metrics
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from support.kept import Kept, turn
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.prefork import COMMAND
from support.processes import ChildProcess

SUITE = """
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
def url(postgres: PostgresServer) -> str:
    return postgres.new_store()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, for_workers=True)
    yield store
    await asyncio.to_thread(store.close)


def write(folder: Path, name: str, tool: str) -> str:
    file = folder / f"{name}.yaml"
    file.write_text(SUITE.format(name=name, tool=tool))
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


async def until(done: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await done():
            await asyncio.sleep(0.05)


async def test_a_worker_reads_the_file_of_the_proxies(url: str, store: PostgresStore, tmp_path: Path) -> None:
    """The file has settings of ports, and secrets of the way to agents, that a worker does not need."""
    config = tmp_path / "config.yaml"

    agents = {
        "search": {"upstream": "http://s", "upstream_header": {"Authorization": "Bearer ${NOT_SET_HERE}"}},
        "orders": {"upstream": "http://o", "suite": write(tmp_path, "orders", "ship")},
    }
    common = write(tmp_path, "common", "pay")
    config.write_text(json.dumps({"listen": "0.0.0.0:8080", "suite": common, "evaluate": False, "agents": agents}))
    with ChildProcess([COMMAND, "worker", "--config", config, "--store", url]) as worker:
        assert "2 agents" in await asyncio.to_thread(worker.read_line)
        await Kept(store).add(paid(1, "orders"), paid(2, "search"))

        async def scored(count: int) -> bool:
            return sum(number for key, number in (await found(store)).items() if key[2]) == count

        await until(lambda: scored(2))
        worker.terminate()
        await asyncio.to_thread(worker.wait, PATIENCE_S)
        told = worker.stderr()
    assert await found(store) == {
        ("orders", "orders", "failed"): 1,
        ("search", "common", "passed"): 1,
    }
    assert "Traceback" not in told
