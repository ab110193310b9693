"""Pages in Chromium: how soon a tool call is on the page, the first paint over a large store, memory after an hour."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
from a2a_eval_proxy.store.sqlite.store import SqliteStore
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer, ReplayAgent
from support.chromium import chromium
from support.turn_samples import many_turns

from .browser import require_browser
from .part import Measured, Part, Setting
from .report import Metric, Values
from .targets import STAGES, Running
from .traffic import benching

CALLS = 5
"""Of each stream; each comes with an event of its own."""
EARLIER = "monday"
"""The run of one half of the stored turns; that of the other is `nightly`."""
LIST, TURN, PROXY = "list", "turn", "the proxy"
PAINT, P50, P95, MEMORY = "pages_paint_ms", "pages_call_p50_ms", "pages_call_p95_ms", "pages_memory_mb"
METRICS = (
    Metric(PAINT, "first paint, ms", "10,000 turns in the store", compared=False),
    Metric(P50, "from the event to the call on the page, ms", "p50", compared=False),
    Metric(P95, "from the event to the call on the page, ms", "p95", compared=False),
    Metric(f"{MEMORY}_early", "memory, MB", "after 6 minutes of 50 turns/s", compared=False),
    Metric(MEMORY, "memory, MB", "after an hour", compared=False),
)
_BATCH = 100
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_SHOWN = {LIST: ".row.open .chip", TURN: ".calls .tool"}
_OBSERVE = """
const count = () => document.querySelectorAll(arguments[0]).length;
window.shown = [];
const look = () => { while (shown.length < count()) shown.push(performance.timeOrigin + performance.now()); };
new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
look();
"""
_AWAIT = """
const [least, done] = arguments;
const look = () => shown.length >= least ? done(shown[least - 1]) : setTimeout(look, 20);
look();
"""


def _measure(setting: Setting) -> Measured:
    require_browser()
    screens = _screens("-")
    measured = Measured([*screens, PROXY])
    with ReplayAgent() as agent, ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(dir=setting.folder))
        filled = fill(folder / "turns.db", setting.plan.stored)
        agent_port = int(agent.authority.rpartition(":")[2])
        process = stack.enter_context(STAGES[-1].started(agent_port, folder, setting.subject_cpus))
        session = stack.enter_context(chromium(setting.folder))
        session.set_script_timeout(30)
        for number in range(1, setting.plan.rounds + 1):
            setting.progress(f"round {number} of {setting.plan.rounds}: pages")
            values = measured.next_round()
            for name, path in _screens(filled).items():
                values[name][PAINT] = first_paint(session, f"{process.admin_url}{path}")
            for name, delays in delays_of_calls(session, agent, process, setting.plan.shown_streams).items():
                values[name] |= {P50: statistics.median(delays), P95: statistics.quantiles(delays, n=20)[-1]}
        setting.progress("memory")
        for name, found in _memory(setting, session).items():
            measured.rounds[0][name] |= found
    return measured


PAGES = Part("pages", METRICS, LIST, (), _measure, by_target=True)


def _screens(turn_id: str) -> dict[str, str]:
    """Path of each screen by its name."""
    return {
        LIST: "/",
        TURN: f"/turns/{turn_id}",
        "conversation": "/conversations/conversation-1",
        "runs": "/runs",
        "run": "/runs/nightly",
        "comparison": f"/compare?a={EARLIER}&b=nightly",
        "cases": "/cases",
    }


def fill(path: Path, turns: int) -> str:
    """A store with scored turns; returns the id of one of them."""
    with closing(SqliteStore(str(path))) as store:
        made = many_turns(turns)
        while batch := list(islice(made, _BATCH)):
            for turn in batch[: _BATCH // 2]:
                turn["run"] = EARLIER
            results = {turn["turn_id"]: turn["evaluations"] for turn in batch}
            while not store.add([Turn.from_dict(turn) for turn in batch], lambda: None, results):
                time.sleep(0.01)  # the queue is full
        asyncio.run(store.drained())
    return f"{1:032x}"


def first_paint(session: Any, url: str) -> float:
    """Milliseconds from the navigation to the first contentful paint."""
    session.get(url)
    script = "const [done] = arguments; new PerformanceObserver((list) => done(list.getEntries()[0].startTime))"
    found: float = session.execute_async_script(f"{script}.observe({{ type: 'paint', buffered: true }})")
    return found


# ---- delays ----


def delays_of_calls(session: Any, agent: ReplayAgent, process: Running, streams: int) -> dict[str, list[float]]:
    """Milliseconds from an event that leaves the agent to its call on the list, and on the page of the turn."""
    delays: dict[str, list[float]] = {LIST: [], TURN: []}
    for name, found in delays.items():
        for _ in range(streams):
            session.get(process.admin_url)
            _until(session, "(document.querySelector('.live') || {}).textContent === 'live'")
            with _streaming(agent, process.port):
                _until(session, "document.querySelector('.row.open .text')")
                if name == TURN:
                    session.get(session.execute_script("return document.querySelector('.row.open .text').href"))
                    _until(session, "document.documentElement.dataset.ready")
                    time.sleep(0.5)  # its stream of events opens, and it loads what it may have missed
                session.execute_script(_OBSERVE, _SHOWN[name])
                for number in range(1, CALLS + 1):
                    time.sleep(0.15 + 0.037 * number)  # not in step with the pauses of proxy and page
                    left = time.time()
                    agent.release()
                    found.append(session.execute_async_script(_AWAIT, number) - left * 1e3)
                agent.release()
    return delays


def _until(session: Any, condition: str) -> None:
    session.execute_async_script(
        f"const [done] = arguments; const look = () => ({condition}) ? done() : setTimeout(look, 10); look();"
    )


@contextmanager
def _streaming(agent: ReplayAgent, port: int) -> Iterator[None]:
    """A stream whose first event has come; each further one, a call, comes with `agent.release`."""
    pieces = [
        b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": event}).encode() + b"\n\n" for event in _events()
    ]
    agent.prepare(Answer([_HEAD + pieces[0], *pieces[1:]], cut=True, paced=True))
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Where is my order?"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    ended = threading.Thread(target=_read, args=(f"http://127.0.0.1:{port}/", request))
    ended.start()
    try:
        yield
    finally:
        ended.join(timeout=60)


def _read(url: str, request: Mapping[str, Any]) -> None:
    with httpx.stream("POST", url, json=request, headers={"a2a-version": "1.0"}, trust_env=False, timeout=60) as answer:
        for _ in answer.iter_bytes():
            pass


def _events() -> Iterator[dict[str, Any]]:
    ids = {"taskId": "task", "contextId": "context"}
    yield {"task": {"id": "task", "contextId": "context", "status": {"state": "TASK_STATE_WORKING"}}}
    for number in range(1, CALLS + 1):
        calls = [{"id": f"{index}", "name": f"tool_{index}", "arguments": {}} for index in range(number)]
        artifact = {"artifactId": "a", "parts": [{"text": "-"}], "extensions": [URI], "metadata": {METADATA_KEY: calls}}
        yield {"artifactUpdate": {**ids, "artifact": artifact}}
    yield {"statusUpdate": {**ids, "status": {"state": "TASK_STATE_COMPLETED"}}}


# ---- memory ----


def _memory(setting: Setting, session: Any) -> dict[str, Values]:
    """Of the proxy and of the list of turns, after a tenth of the turns of an hour and after all of them."""
    found: dict[str, Values] = {LIST: {}, PROXY: {}}
    folder = Path(tempfile.mkdtemp(dir=setting.folder))
    with (
        benching(setting) as bench,
        STAGES[-1].started(bench.agent_port, folder, setting.subject_cpus) as process,
    ):
        session.get(process.admin_url)
        tenth = setting.plan.hour_turns // 10
        for key, turns in ((f"{MEMORY}_early", tenth), (MEMORY, setting.plan.hour_turns - tenth)):
            bench.load.unary(process.port, connections=16, seconds=3600, requests=turns)
            bench.settle(process)
            found[PROXY][key] = (process.rss_bytes() or 0) / 1e6
            found[LIST][key] = _heap_bytes(session) / 1e6
    return found


def _heap_bytes(session: Any) -> float:
    """What the page holds in script objects and nodes, after its garbage was collected."""
    session.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    session.execute_cdp_cmd("Performance.enable", {})
    metrics = session.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(float(one["value"]) for one in metrics if one["name"] == "JSHeapUsedSize")
