"""An agent whose judge hangs takes no more of the memory for scoring than leaves the others theirs, and no time at the
end."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.memory import MIB
from a2a_eval_proxy.settings import Settings
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.telemetry.turn_listener import ScoredTurn, TurnListener
from agents.serving import ServerThread
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from judges.fake_api import KEY, MODEL, FakeApi, Reply, fit
from support.patience import PATIENCE_S

TURNS, LARGE = 8, "done " + "x" * 2 * MIB


class ScoredTurns(TurnListener):
    """How often each turn was scored."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        self.counts.update(turn.turn_id for turn, _, _ in scored)


async def test_a_flood_before_a_judge_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns beyond its share wait in the store alone, and all are scored once the judge answers: each once, though
    the agent is removed and added again meanwhile."""
    listener = ScoredTurns()
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    asked, answers = threading.Event(), threading.Event()

    async def hang(request: dict[str, Any]) -> Reply:
        asked.set()
        assert await asyncio.to_thread(answers.wait, PATIENCE_S)
        return fit(request)

    api = FakeApi(hang)
    with stepwise_agent() as agent, ServerThread(api.app) as judge:
        suite = tmp_path / "suite.yaml"
        suite.write_text(
            f"suite: judged\njudge: {{base_url: {judge.url}/v1, model: {MODEL}}}\nevaluators: [helpfulness]\n"
        )
        agents = {"floods": {"upstream": agent.url, "suite": str(suite)}, "other": agent.url}
        ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": str(tmp_path / "turns.db")}
        async with (
            run_proxy(load(Settings, {**ports, "run": "day", "agents": agents}), listener) as proxy,
            httpx.AsyncClient(timeout=PATIENCE_S) as http,
        ):

            async def say(name: str, text: str) -> None:
                params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
                url, headers = f"{proxy.url}/agents/{name}{RPC_PATH}", {"a2a-version": "1.0"}
                assert "result" in (await http.post(url, json=body, headers=headers)).json()

            floods, other = (proxy.lines[name].pipeline for name in agents)
            held = floods._jobs._held
            most = 0
            for _ in range(TURNS):
                await say("floods", LARGE)
                await floods.written()
                most = max(most, held.total)
            assert await asyncio.to_thread(asked.wait, PATIENCE_S)
            await say("other", "done")
            await other.drained()
            assert floods.depth == TURNS
            pool = held._pool
            assert pool is not None
            assert pool.limit // 3 < most <= pool.limit // 2 + len(LARGE) + MIB
            assert other._jobs._held.limit >= pool.limit // 16
            for present in ({"other": agent.url}, agents):
                await proxy.lines.change(load(Settings, {**ports, "run": "day", "agents": present}))
            await say("floods", "done")
            answers.set()
            await asyncio.gather(floods.drained(), *proxy.lines._leaving)
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()
            assert (held.total, pool.total) == (0, 0)
    found = [(turn["agent_name"], turn["status"], turn["evaluations"][0]["status"]) for turn in turns]
    assert sorted(found) == [*[("floods", "done", "failed")] * (TURNS + 1), ("other", "done", "passed")]
    assert set(listener.counts.values()) == {1}


async def test_a_judge_that_hangs_does_not_keep_the_proxy_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    asked, ends, ended = threading.Event(), threading.Event(), threading.Event()

    async def hang(request: dict[str, Any]) -> Reply:
        asked.set()
        await asyncio.to_thread(ends.wait, PATIENCE_S)
        ended.set()
        return fit(request)

    with stepwise_agent() as agent, ServerThread(FakeApi(hang).app) as judge:
        suite = tmp_path / "suite.yaml"
        suite.write_text(
            f"suite: judged\njudge: {{base_url: {judge.url}/v1, model: {MODEL}}}\nevaluators: [helpfulness]\n"
        )
        ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": str(tmp_path / "turns.db")}
        given = {**ports, "upstream": agent.url, "suite": str(suite), "shutdown_timeout": 0.1}
        async with run_proxy(load(Settings, given)) as proxy, httpx.AsyncClient(timeout=PATIENCE_S) as http:
            params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "done"}]}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
            await http.post(f"{proxy.url}{RPC_PATH}", json=body, headers={"a2a-version": "1.0"})
            assert await asyncio.to_thread(asked.wait, PATIENCE_S)
        assert not ended.is_set()
        ends.set()
