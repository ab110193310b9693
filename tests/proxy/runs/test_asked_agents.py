"""Turns of `run` whose agent asks another one through a proxy with the same store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from a2a_eval_proxy.features.graph.trees import StoredTrees
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.store import open_store
from support.postgres_server import PostgresServer
from support.proxy import Proxy
from tool_call_evaluators.agent_tree import walk
from tool_call_evaluators.suite import parse_suite
from tools.soak.trees.crew import Crew, running_crew
from tools.soak.trees.plan import ANSWERS, NOTHING, WHOLE, Message


@pytest.mark.database
async def test_the_tree_begins_with_the_turn_of_the_run(postgres: PostgresServer, tmp_path: Path) -> None:
    """Two branches at once, so that only `tracestate` shows whose children are whose."""
    below = [[Message(name, "b", WHOLE, [ANSWERS]) for name in ("x", "y")]]
    branches = [[Message(name, "b", WHOLE, [ANSWERS], below) for name in ("left", "right")]]
    asked = Message("first", "a", NOTHING, [ANSWERS], branches)
    text = asked.text("first", 0)
    case = {"id": "c", "turns": [{"user": text}]}
    suite = parse_suite(json.dumps({"suite": "s", "evaluators": ["tool_error"], "cases": [case]}))
    url, crew = postgres.new_store(), Crew()
    with running_crew(crew, "ab") as agents, Proxy(agents.url, tmp_path / "x.db", "--store", url) as proxy:
        crew.entrance = lambda agent: f"{proxy.url}/{agent}"
        result = await run_suite(suite, AgentOptions(f"{agents.url}/a"), url, "r")
        await crew.done()
        await asyncio.to_thread(proxy.flush)
    (turn,) = result.report.turns
    store = await asyncio.to_thread(open_store, url)
    tree = await StoredTrees(store).below(turn["turn_id"])
    await asyncio.to_thread(store.close)
    assert tree is not None
    placed = list(walk(tree))
    assert [one.depth for one in placed] == [0, 1, 2, 2, 1, 2, 2]
    assert all(one.turn.asked is None or one.turn.asked.certain for one in placed)
    for one in placed[1:]:
        parent = "first" if one.depth == 1 else json.loads(one.parent.user_text)["key"]  # type: ignore[union-attr]
        assert json.loads(one.turn.user_text)["key"].rpartition(">")[0] == parent
