"""SIGTERM: nothing that began is cut, nothing that was captured is lost, and the process ends in time."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from e2e.balancer import Balancer, Behind, balancer
from e2e.contracts import GetAgent
from e2e.streams import HEADERS, open_gate, open_streams, said
from e2e.traffic import constant_traffic
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.prefork import run
from support.proxy import Proxy, Turn
from support.raw_a2a import Wire

STREAMS = 50


def stored(store: Path) -> list[Turn]:
    """What a process that is gone has left."""
    return [json.loads(line) for line in run("export", "--store", store).stdout.splitlines()]


async def until_not_ready(proxy: Proxy) -> None:
    while await asyncio.to_thread(proxy.readiness) != 503:
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_open_streams_finish_and_every_turn_is_scored(agent: GetAgent, tmp_path: Path) -> None:
    upstream, gate, store = agent("v1"), str(uuid.uuid4()), tmp_path / "turns.db"
    with Proxy(upstream, store) as proxy:
        async with open_streams(proxy.url, gate, STREAMS) as streams:
            proxy.terminate()
            await until_not_ready(proxy)
            await open_gate(upstream, gate)
            texts = await asyncio.gather(*streams)
        assert await asyncio.to_thread(proxy.wait, PATIENCE_S) == 0

    assert Counter(texts) == {"before after": STREAMS}
    turns = stored(store)
    assert Counter(turn["user_text"] for turn in turns) == Counter(said(gate, number) for number in range(STREAMS))
    assert Counter(turn["status"] for turn in turns) == {"done": STREAMS}
    assert Counter(len(turn["tool_calls"]) for turn in turns) == {2: STREAMS}


async def test_what_does_not_finish_is_cut_when_the_time_is_over(agent: GetAgent, tmp_path: Path) -> None:
    upstream, gate, store = agent("v1"), str(uuid.uuid4()), tmp_path / "turns.db"
    with Proxy(upstream, store, "--timeouts", "shutdown=1") as proxy:
        async with open_streams(proxy.url, gate, 1) as (stream,):
            proxy.terminate()
            with pytest.raises(httpx.RemoteProtocolError):
                await stream
        assert await asyncio.to_thread(proxy.wait, PATIENCE_S) == 0
        await open_gate(upstream, gate)

    (turn,) = stored(store)
    assert (turn["status"], turn["ended_at"]) == ("open", None)  # the task goes on: another process may complete it
    assert turn["response_text"] == "before "


async def test_it_serves_while_it_tells_that_it_is_not_ready(agent: GetAgent, tmp_path: Path) -> None:
    content = Wire("1.0", "JSONRPC").message("artifact").body
    with Proxy(agent("v1"), tmp_path / "turns.db", "--timeouts", "drain=600") as proxy:
        async with httpx.AsyncClient(trust_env=False, headers=HEADERS) as http:
            before = await http.post(f"{proxy.url}/a2a/jsonrpc", content=content)
            proxy.terminate()
            await until_not_ready(proxy)
            on_the_same_connection = await http.post(f"{proxy.url}/a2a/jsonrpc", content=content)
            on_a_new_one = await http.post(f"{proxy.url}/a2a/jsonrpc", content=content)
        proxy.kill()
    answers = [before, on_the_same_connection, on_a_new_one]
    assert [answer.status_code for answer in answers] == [200] * 3
    assert [answer.headers.get("connection") for answer in answers] == [None, "close", "close"]


# ── one after the other ─────────────────────────────────────────────────────────────────────────────────────


async def until_all_up(before: Balancer) -> None:
    while {*(await asyncio.to_thread(before.states)).values()} != {"UP"}:
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_rolling_restart_fails_no_request(agent: GetAgent, tmp_path: Path) -> None:
    """Of two proxies on ports that stay theirs, each with its store."""
    with held_ports(5) as (*ports, front), ExitStack() as stack:
        members = [Behind("first", *ports[:2]), Behind("second", *ports[2:])]

        def started(member: Behind) -> Proxy:
            addresses = [f"--listen=127.0.0.1:{member.port}", f"--admin=127.0.0.1:{member.admin_port}"]
            store = tmp_path / f"{member.name}.db"
            return stack.enter_context(Proxy(agent("v1"), store, *addresses, "--timeouts", "drain=1"))

        running = {member: started(member) for member in members}
        before = stack.enter_context(balancer(tmp_path, front, members))
        async with asyncio.timeout(PATIENCE_S):
            await until_all_up(before)
            async with constant_traffic(before.url, clients=8) as traffic:
                await traffic.goes_on()
                for member, proxy in running.items():
                    proxy.terminate()
                    assert await asyncio.to_thread(proxy.wait, PATIENCE_S) == 0
                    await asyncio.to_thread(started, member)
                    await until_all_up(before)
                    await traffic.goes_on()

    turns = [turn for member in members for turn in stored(tmp_path / f"{member.name}.db")]
    assert Counter(turn["user_text"] for turn in turns) == Counter(traffic.answered)
    assert {turn["status"] for turn in turns} == {"done"}
