"""The pages over a store, as the command `ui` serves them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.errors import ListenError
from a2a_eval_proxy.features.pages import store_pages as module
from a2a_eval_proxy.features.pages.feature import UiOptions, serve_pages
from a2a_eval_proxy.features.pages.store_pages import store_pages
from a2a_eval_proxy.runs.run_result import JudgedBy, Plan, run_report
from a2a_eval_proxy.runs.stored_turns import open_existing_store
from a2a_eval_proxy.store import StoreError
from a2a_eval_proxy.store.base import KeptVerdict
from a2a_eval_proxy.telemetry import logs
from support.stored_runs import store_turns
from support.turn_samples import result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.outcomes.conversations import run_verdict


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "turns.db"
    scored = turn("1", "Where is it?", evaluations=[result("tool_error", 1.0)], case="status", run="monday")
    store_turns(path, [scored])
    return path


@asynccontextmanager
async def visited(store: Path, *more: Any, **options: Any) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A browser that has followed the link of the pages, and what it then saw."""
    async with (
        store_pages(str(store), 0, *more, **options) as (link, token),
        httpx.AsyncClient(base_url=link.partition("/login")[0], trust_env=False, follow_redirects=True) as browser,
    ):
        assert (await browser.get("/")).status_code == 401
        assert (await browser.get("/api/runs", headers={"authorization": "Bearer wrong"})).status_code == 401
        assert (await browser.get("/api/runs", headers={"authorization": f"Bearer {token}"})).status_code == 200
        entered = await browser.get(link, headers={"accept": "text/html"})
        yield browser, entered.text


async def test_every_screen_works_without_an_agent(store):
    text = "suite: orders\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is it?%s}]}]"
    suite, judged = (parse_suite(text % expected) for expected in ("", ", expect: {tool_calls: [{name: lookup}]}"))
    async with open_existing_store(str(store)) as opened:
        plan = Plan([JudgedBy(judged)])
        for run in ("monday", "tuesday"):
            await opened.keep_verdict(run, KeptVerdict("orders", plan.to_dict(), "pending", None, "none yet"))
    store_turns(store, [turn("2", run="of no suite"), turn("3", run="tuesday")])
    async with visited(store, suite, "orders.yaml") as (browser, entered):
        assert "Where is it?" in entered
        for path in ("/runs", "/runs/monday", "/cases", "/compare", "/turns/1", "/conversations/conversation-1"):
            assert (await browser.get(path)).status_code == 200, path
        assert 'class="removed wrong"' in (await browser.get("/turns/1")).text  # by the suite that judged the run
        assert "status" in (await browser.get("/cases")).text
        assert "<h1>monday → tuesday</h1>" in (await browser.get("/compare?wait=1")).text
        assert (await browser.get("/api/turns/1/wire")).status_code < 500


async def test_a_run_keeps_the_verdict_that_it_had(store):
    """Here of a moment without turns: now it would pass."""
    suite = parse_suite("suite: orders\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is it?}]}]")
    failed = run_verdict(suite, ()).to_dict()
    kept = KeptVerdict("orders", Plan([JudgedBy(suite)]).to_dict(), "failed", {"whole": failed, "parts": [failed]})
    async with open_existing_store(str(store)) as opened:
        await opened.keep_verdict("monday", kept)
        assert (await run_report(opened, *await opened.runs("monday"))).outcome == "failed"


async def test_agents_are_those_that_turns_in_the_store_name(store):
    failed = [result("tool_error", 0.0)]
    store_turns(
        store, [turn("2", case="status", agent_name="orders"), turn("3", "x", [], failed, agent_name="refunds")]
    )
    async with visited(store) as (browser, first):
        listed = (await browser.get("/api/agents")).json()["items"]
        found = [(one["name"], one["health"], one["open_turns"]) for one in listed]
        assert found == [("refunds", "failing", None), ("orders", "ok", None)]
        assert 'href="agents"' in first
        assert "refunds" in (await browser.get("/agents")).text
        assert 'href="../turns/2' in (await browser.get("/agents/orders")).text
        assert (await browser.get("/agents/returns")).status_code == 404
        for path in ("/?agent=orders", "/cases", "/label", "/runs?agent=orders"):
            assert (await browser.get(path)).status_code == 200, path


async def test_a_trace_is_a_link_to_where_it_can_be_seen(tmp_path):
    path = tmp_path / "turns.db"
    store_turns(path, [turn("1", run="monday", trace_id="4bf9<"), turn("2", run="monday", trace_id="")])
    async with visited(path, trace_url="http://jaeger/trace/{trace_id}?a&b") as (browser, _):
        link = '<a href="http://jaeger/trace/4bf9%3C?a&amp;b" rel="noreferrer">4bf9&lt;</a>'
        assert link in (await browser.get("/turns/1")).text
        assert "jaeger" not in (await browser.get("/turns/2")).text
        report = await browser.get("/api/runs/monday/report")
        assert 'data-trace-url="http://jaeger/trace/{trace_id}?a&amp;b"' in report.text


async def test_a_turn_that_a_proxy_adds_is_an_event(store, monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    async with visited(store) as (browser, _), browser.stream("GET", "/api/events?types=turn.done") as events:
        lines = events.aiter_lines()
        assert await anext(lines) == ": listening"
        adding = True

        async def add() -> None:  # until the watch has begun
            number = 0
            while adding:
                number += 1
                await asyncio.to_thread(store_turns, store, [turn(f"new-{number}", run="tuesday")])

        task = asyncio.create_task(add())
        async for line in lines:
            if line.startswith("data:") and "new-" in line:
                break
        adding = False
        await task


async def test_a_missing_store_and_a_taken_port_are_named(tmp_path, store):
    with pytest.raises(StoreError, match="no such file"):
        async with store_pages(str(tmp_path / "missing.db"), 0):
            pass
    taken = pytest.raises(ListenError, match="choose another address with --port")
    with socket.create_server(("127.0.0.1", 0)) as server, taken:
        async with store_pages(str(store), server.getsockname()[1]):
            pass


async def test_the_command_prints_the_link_and_stops_on_a_signal(store, capsys, monkeypatch):
    monkeypatch.setattr(logs, "start_logging", lambda *_: None)  # the handlers are those of pytest
    serving = asyncio.create_task(serve_pages(UiOptions(store=str(store), port=0)))
    printed = ""
    while "ready" not in printed:
        await asyncio.sleep(0.01)
        assert not serving.done()
        printed += capsys.readouterr().out
    assert f"store {store}, open http://127.0.0.1:" in printed
    assert "/login?code=" in printed
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
