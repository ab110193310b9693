"""The pages over a store, as the command `ui` serves them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.errors import ListenError
from a2a_eval_proxy.features.pages import store_pages as module
from a2a_eval_proxy.features.pages.feature import UiOptions, serve_pages
from a2a_eval_proxy.features.pages.store_pages import store_pages
from a2a_eval_proxy.runs.run_result import JudgedBy, Plan
from a2a_eval_proxy.runs.stored_turns import open_existing_store
from a2a_eval_proxy.store import StoreError
from a2a_eval_proxy.store.base import KeptVerdict
from a2a_eval_proxy.telemetry import logs
from support.stored_runs import store_turns
from support.turn_samples import result, turn
from tool_call_evaluators import parse_suite


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "turns.db"
    scored = turn("1", "Where is it?", evaluations=[result("tool_error", 1.0)], case="status", run="monday")
    store_turns(path, [scored])
    return path


async def test_every_screen_works_without_an_agent(store):
    suite = parse_suite("suite: orders\nevaluators: [tool_error]\ncases: [{id: status, turns: [{user: Where is it?}]}]")
    async with open_existing_store(str(store)) as opened:
        plan = Plan([JudgedBy(suite)])
        await opened.keep_verdict("monday", KeptVerdict("orders", plan.to_dict(), "pending", None, "none yet"))
    async with (
        store_pages(str(store), 0, suite, "orders.yaml") as (link, _),
        httpx.AsyncClient(trust_env=False) as browser,
    ):
        base = link.partition("/login")[0]
        assert (await browser.get(f"{base}/")).status_code == 401
        entered = await browser.get(link, follow_redirects=True, headers={"accept": "text/html"})
        assert "Where is it?" in entered.text
        for path in ("/runs", "/runs/monday", "/cases", "/compare", "/turns/1", "/conversations/conversation-1"):
            assert (await browser.get(f"{base}{path}")).status_code == 200, path
        assert "status" in (await browser.get(f"{base}/cases")).text
        browser.cookies.clear()
        assert (await browser.get(link)).status_code == 401  # it works once


async def test_agents_are_those_that_turns_in_the_store_name(store):
    failed = [result("tool_error", 0.0)]
    store_turns(
        store, [turn("2", case="status", agent_name="orders"), turn("3", "x", [], failed, agent_name="refunds")]
    )
    async with store_pages(str(store), 0) as (link, token):
        base, bearer = link.partition("/login")[0], {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=base, trust_env=False, follow_redirects=True) as browser:
            listed = (await browser.get("/api/agents", headers=bearer)).json()["items"]
            assert [(one["name"], one["health"], one["open_turns"]) for one in listed] == [
                ("refunds", "failing", None),
                ("orders", "ok", None),
            ]
            first = (await browser.get(link, headers={"accept": "text/html"})).text
            assert 'href="agents"' in first
            assert '<option value="orders">' in first or "<option>orders</option>" in first
            assert "refunds" in (await browser.get("/agents")).text
            page = (await browser.get("/agents/orders")).text
            assert 'href="../turns/2' in page
            assert (await browser.get("/agents/returns")).status_code == 404
            for path in ("/?agent=orders", "/cases", "/label", "/runs?agent=orders"):
                assert (await browser.get(path)).status_code == 200, path


async def test_a_trace_is_a_link_to_where_it_can_be_seen(tmp_path):
    path = tmp_path / "turns.db"
    store_turns(path, [turn("1", run="monday", trace_id="4bf9<"), turn("2", run="monday", trace_id="")])
    async with (
        store_pages(str(path), 0, trace_url="http://jaeger/trace/{trace_id}?a&b") as (link, _),
        httpx.AsyncClient(trust_env=False, timeout=60, follow_redirects=True) as browser,
    ):
        base = link.partition("/login")[0]
        await browser.get(link)
        link = '<a href="http://jaeger/trace/4bf9%3C?a&amp;b" rel="noreferrer">4bf9&lt;</a>'
        assert link in (await browser.get(f"{base}/turns/1")).text
        assert "jaeger" not in (await browser.get(f"{base}/turns/2")).text
        report = await browser.get(f"{base}/api/runs/monday/report")
        assert 'data-trace-url="http://jaeger/trace/{trace_id}?a&amp;b"' in report.text


async def test_the_api_needs_the_token_and_changes_no_traffic(store):
    async with store_pages(str(store), 0) as (link, token):
        base, bearer = link.partition("/login")[0], {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=base, trust_env=False, headers=bearer) as api:
            assert (await api.get("/api/runs")).json()["items"][0]["name"] == "monday"
            assert (await api.post("/api/flush")).json() == {"done": True, "pending": 0, "open": 0}
            assert (await api.get("/api/turns/1/wire")).status_code < 500
            assert (await api.get("/api/runs", headers={"authorization": "Bearer wrong"})).status_code == 401


async def test_a_turn_that_a_proxy_adds_is_an_event(store, monkeypatch):
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    async with store_pages(str(store), 0) as (link, token):
        base, bearer = link.partition("/login")[0], {"authorization": f"Bearer {token}"}
        listening = httpx.AsyncClient(trust_env=False, headers=bearer)
        adding = True

        async def add() -> None:  # until the watch has begun
            number = 0
            while adding:
                number += 1
                await asyncio.to_thread(store_turns, store, [turn(f"new-{number}", run="tuesday")])

        async with listening, listening.stream("GET", f"{base}/api/events?types=turn.done") as events:
            lines = events.aiter_lines()
            assert await anext(lines) == ": listening"
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
