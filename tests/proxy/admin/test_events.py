"""GET /api/events: events arrive while a turn is open; reconnecting loses nothing and repeats nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.telemetry.event_bus import TYPES
from agents.scenario_agent import RPC_PATH, scenario_agent
from agents.scenarios import CONVERT, SEARCH
from support.live import LiveStream, live

pytestmark = pytest.mark.asyncio(loop_scope="module")


GATES = itertools.count()


@dataclass
class Proxied:
    """A proxy before a real agent that stops in the middle of a turn until the test opens a gate."""

    proxy: RunningProxy
    agent: httpx.AsyncClient
    data: httpx.AsyncClient
    admin: httpx.AsyncClient

    @asynccontextmanager
    async def turn(self, *words: str, **headers: str) -> AsyncIterator[None]:
        """A streaming turn that is at the gate in the block, after its calls and half its text; and over behind it."""
        gate = f"g{next(GATES)}"
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": " ".join(["slow", gate, *words])}]}
        request = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
        named = {"a2a-version": "1.0", **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.data.stream("POST", RPC_PATH, json=request, headers=named) as response:
            chunks = response.aiter_text()
            while "before" not in await anext(chunks):
                pass
            try:
                yield
            finally:
                await self.agent.post("/_control/open", params={"gate": gate})
                async for _ in chunks:
                    pass
                await self.flushed()

    async def flushed(self) -> None:
        assert (await self.admin.post("/api/flush")).json()["done"]


@asynccontextmanager
async def proxied(agent: str, folder: Path, **settings: Any) -> AsyncIterator[Proxied]:
    everything = Settings(
        upstream=agent, listen="127.0.0.1:0", admin="127.0.0.1:0", otlp=None, store=str(folder / "turns.db"), **settings
    )
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(run_proxy(everything))
        urls = agent, proxy.url, proxy.admin_url
        clients = [await stack.enter_async_context(httpx.AsyncClient(base_url=url)) for url in urls]
        yield Proxied(proxy, *clients)


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(agent: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(agent, tmp_path_factory.mktemp("store")) as running:
        yield running


async def names(stream: LiveStream, last: str = "turn.done") -> list[str]:
    return [event.name for event in await stream.until(last)]


async def test_events_arrive_while_the_turn_is_open(it: Proxied) -> None:
    async with live(it.admin) as stream:
        async with it.turn(a2a_eval_run="live", a2a_eval_case="weather"):
            opened, *changes = await stream.until("text")
            assert (await it.admin.get(f"/api/turns/{opened.data['turn_id']}")).status_code == 404
        rest = await stream.until("turn.done")
    assert opened.name == "turn.opened"
    shown = {"run": "live", "case_id": "weather", "status": "open", "tool_calls": [], "evaluations": []}
    assert {name: opened.data[name] for name in shown} == shown
    events = [*changes, *rest]
    assert {(event.data["turn_id"], event.data["run"], event.data["case_id"]) for event in events} == {
        (opened.data["turn_id"], "live", "weather")
    }
    calls = [event.data for event in changes if event.name == "tool_call"]
    assert [(call["index"], call["call"]["name"]) for call in calls] == [(0, SEARCH["name"]), (1, CONVERT["name"])]
    texts = [event.data for event in events if event.name == "text"]
    assert "".join(text["text"] for text in texts) == "before after"
    assert [text["append"] for text in texts] == [False] + [True] * (len(texts) - 1)
    states = [event.data["state"] for event in events if event.name == "state"]
    assert states[-2:] == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert [event.name for event in rest[-2:]] == ["turn.closed", "turn.done"]
    done = (await it.admin.get(f"/api/turns/{opened.data['turn_id']}")).json()
    assert rest[-1].data == done
    seen = [call["times"]["first_seen_at"] for call in calls]
    assert [(times["first_seen_at"], times["source"]) for times in done["call_times"]] == [
        (at, "protocol") for at in seen
    ]
    assert done["first_event_at"] <= seen[0] < done["ended_at"]


async def test_a_turn_that_was_open_before_anyone_listened(agent: str, tmp_path: Path) -> None:
    async with proxied(agent, tmp_path) as it, AsyncExitStack() as stack:
        async with it.turn(a2a_eval_case="weather"):
            stream = await stack.enter_async_context(live(it.admin, types="tool_call,text,turn.done"))
        events = await stream.until("turn.done")
        assert [event.name for event in events if event.name != "text"] == ["tool_call", "tool_call", "turn.done"]
        assert "".join(event.data["text"] for event in events if event.name == "text") == "before after"
        assert {event.data["case_id"] for event in events} == {"weather"}


async def test_reconnecting_loses_nothing_and_repeats_nothing(it: Proxied) -> None:
    async with live(it.admin) as whole, live(it.admin) as first:
        async with it.turn():
            begun = await first.until("tool_call")
            ids = [event.id for event in begun]
        all_names = await names(whole)
    for headers, query in (({"last-event-id": ids[-1]}, {}), ({}, {"last_event_id": ids[-1]})):
        async with live(it.admin, headers, **query) as again:
            rest = await again.until("turn.done")
        assert [event.name for event in [*begun, *rest]] == all_names
        assert not {event.id for event in rest} & set(ids)


@pytest.mark.parametrize("known", ["nonsense", "deadbeef-1"])
async def test_an_id_of_another_process_is_answered_with_reset(it: Proxied, known: str) -> None:
    async with live(it.admin, {"last-event-id": known}) as stream:
        async with it.turn():
            pass
        events = await stream.until("turn.done")
    assert [event.name for event in events[:2]] == ["reset", "turn.opened"]


async def test_filters(it: Proxied) -> None:
    async with (
        live(it.admin, run="a") as run,
        live(it.admin, case="one", types="turn.closed") as case,
        live(it.admin, run="b", types="tool_call,turn.done") as types,
    ):
        async with it.turn(a2a_eval_run="b", a2a_eval_case="one"):
            pass
        async with it.turn(a2a_eval_run="a", a2a_eval_case="two"):
            pass
        assert {event.data["run"] for event in await run.until("turn.done")} == {"a"}
        assert (await case.next()).data["run"] == "b"
        assert await names(types) == ["tool_call", "tool_call", "turn.done"]


# ── open turns ──────────────────────────────────────────────────────────────────────────────────────────────


async def open_turns(it: Proxied, **query: str) -> list[dict[str, Any]]:
    response = await it.admin.get("/api/open-turns", params=query)
    assert response.status_code == 200
    return list(response.json()["items"])


async def test_open_turns_are_shown_with_what_is_known(it: Proxied) -> None:
    assert await open_turns(it) == []
    async with it.turn(a2a_eval_run="first"), it.turn(a2a_eval_run="second", a2a_eval_case="weather"):
        while sum(len(turn["tool_calls"]) for turn in await open_turns(it)) < 4:  # the client is quicker than capture
            pass
        later, earlier = await open_turns(it)
        assert await open_turns(it, run="first") == [earlier]
        assert await open_turns(it, run="first", case="weather") == []
    assert (later["run"], later["case_id"], earlier["run"]) == ("second", "weather", "first")
    assert [call["name"] for call in later["tool_calls"]] == [SEARCH["name"], CONVERT["name"]]
    assert (later["response_text"], later["status"], later["state"]) == ("before ", "open", "TASK_STATE_WORKING")
    assert await open_turns(it) == []


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_live_events_are_redacted_as_in_the_store(agent: str, tmp_path: Path) -> None:
    rules = parse_rules([{"detector": "email"}, {"name": "q"}])
    async with proxied(agent, tmp_path, redact=rules) as it, live(it.admin) as stream:
        async with it.turn("for", "ann@example.com", a2a_eval_run="of bob@example.com"):
            begun = await stream.until("text")
            while not (shown := await open_turns(it))[0]["response_text"]:  # the client is quicker than capture
                pass
        events = [*begun, *await stream.until("turn.done")]
        assert events[-1].data == (await it.admin.get(f"/api/turns/{shown[0]['turn_id']}")).json()
    published = json.dumps([*(event.data for event in events), *shown])
    assert not [word for word in ("example.com", "weather") if word in published]
    assert begun[0].data["user_text"].endswith("for [email]")
    assert len({event.data["run"] for event in events}) == 1
    calls = [event.data["call"]["arguments"] for event in events if event.name == "tool_call"]
    assert calls[:2] == [{"q": "[redacted]"}, CONVERT["arguments"]]
    texts = [event.data for event in events if event.name == "text"]
    assert {(text["text"], text["append"]) for text in texts} == {(None, False)}
    assert shown[0]["response_text"] == "[not shown while the turn is open: 7 characters]"


async def test_without_content_nothing_of_it_is_published(agent: str, tmp_path: Path) -> None:
    async with proxied(agent, tmp_path, no_content=True) as it, live(it.admin) as stream:
        async with it.turn("planted"):
            begun = await stream.until("text")
            shown = await open_turns(it)
        events = [*begun, *await stream.until("turn.done")]
    published = json.dumps([*(event.data for event in events), *shown])
    assert not [word for word in ("slow g", "planted", "before", "Berlin", "temp_c") if word in published]
    calls = [event.data["call"]["arguments"] for event in events if event.name == "tool_call"]
    assert calls[:2] == [{"q": "string"}, {"c": "number"}]


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_listener_that_never_reads_costs_nobody_anything(agent: str, tmp_path: Path) -> None:
    """Its connection fills up; then it holds its place in the log, and once it reads again, learns of its loss."""
    async with proxied(agent, tmp_path) as it:
        bus = it.proxy.control.bus
        bus.max_events = 30
        large = {"run": "nightly", "case_id": None, "texts": ["x" * 900] * 100}
        async with live(it.admin) as stuck, live(it.admin, types="turn.done") as quick:
            for _ in range(80):  # more than the buffers of its connection take
                bus.publish("turn.opened", large)
                bus.publish("turn.done", large)
                assert (await quick.next()).name == "turn.done"
            read = set()
            while stuck.last_id != bus.id_of(bus.last):  # it may lose events more than once before it has caught up
                read.add((await stuck.next()).name)
            assert "reset" in read <= {*TYPES, "reset"}
            async with it.turn():
                pass
            await stuck.until("turn.opened")


async def test_events_are_counted_and_those_of_one_turn_selected(it: Proxied) -> None:
    async with live(it.admin, view="count") as counts, it.turn():
        first = await counts.next()
    assert (first.name, first.data["count"] > 0) == ("changes", True)
    async with live(it.admin, turn="another") as of_turn, live(it.admin) as whole:
        async with it.turn():
            pass
        done = (await whole.until("turn.done"))[-1].data
        async with live(it.admin, turn=done["turn_id"], last_event_id=of_turn.last_id) as again:
            assert {event.data["turn_id"] for event in await again.until("turn.done")} == {done["turn_id"]}


async def test_no_server_in_front_collects_the_events(it: Proxied) -> None:
    """nginx does so by default, and a page would stand still for seconds."""
    async with it.admin.stream("GET", "/api/events") as response:
        assert (response.headers["x-accel-buffering"], response.headers["cache-control"]) == ("no", "no-store")
