"""Agents that stall or leave, clients whose endpoints never end their answers, and a store that gives none."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any
from urllib.parse import urlsplit

import pytest
from a2a_eval_proxy.features.push import listener, registry
from a2a_eval_proxy.store.webhooks import WebhookTable
from proxy.push.conftest import Endpoint, Relay
from proxy.push.test_relay import asking
from support.patience import PATIENCE_S


def raw(address: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    url = urlsplit(address)
    head = f"POST {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def test_a_notification_whose_agent_leaves_at_once_is_passed_on(relay: Relay, endpoint: Endpoint) -> None:
    _, _, address = await asking(relay, endpoint.url)
    url = urlsplit(address)
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(raw(address, {"n": 1}))
    writer.close()
    assert (await endpoint.next()).json == {"n": 1}


async def test_notifications_leave_nothing_in_memory(relay: Relay, endpoint: Endpoint) -> None:
    _, _, address = await asking(relay, endpoint.url)
    sizes = []
    tracemalloc.start()
    try:
        for number in range(20):
            assert (await relay.notify(address, {"n": number, "more": "x" * 500_000})).status_code == 200
            await endpoint.next()
            endpoint.before.clear()
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert sizes[-1] - sizes[0] < 2_000_000


async def test_a_notification_that_arrives_slowly_keeps_no_other_waiting(relay: Relay, endpoint: Endpoint) -> None:
    _, _, address = await asking(relay, endpoint.url)
    slow = raw(address, {"n": "slow"})
    url = urlsplit(address)
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(slow[:-5])
    await writer.drain()
    assert (await relay.notify(address, {"n": "quick"})).status_code == 200
    writer.write(slow[-5:])
    assert [(await endpoint.next()).json["n"] for _ in range(2)] == ["quick", "slow"]
    writer.close()


async def test_a_notification_without_an_answer_delays_the_next_ones_briefly(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TURN_S", 0.05)
    first_begins, others_are_taken = asyncio.Event(), asyncio.Event()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"n=0" in await reader.readuntil(b"\r\n\r\n"):
            first_begins.set()
            await others_are_taken.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        _, _, address = await asking(relay, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook")
        first = asyncio.create_task(relay.notify(f"{address}?n=0", {"n": 0}))
        await asyncio.wait_for(first_begins.wait(), PATIENCE_S)
        others = await asyncio.gather(*(relay.notify(f"{address}?n={n}", {"n": n}) for n in range(1, 6)))
        assert [one.status_code for one in others] == [200] * 5
        others_are_taken.set()
        assert (await first).status_code == 200


@pytest.mark.parametrize("ends", [True, False])
async def test_the_clients_status_counts_though_its_body_is_cut_or_never_ends(
    relay: Relay, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.setattr(listener, "BODY_S", 0.1)

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 99\r\n\r\ntaken")
        if not ends:
            await reader.read()
        writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as server:
        _, _, address = await asking(relay, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook")
        answer = await relay.notify(address, {"n": 1})
    assert (answer.status_code, answer.text) == (202, "taken")


async def test_a_store_that_does_not_answer_is_waited_for_only_so_long(
    relay: Relay, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    _, task_id, address = await asking(relay, endpoint.url)
    monkeypatch.setattr(registry, "STORE_S", 0.1)
    monkeypatch.setattr(WebhookTable, "get", never)
    answer = await relay.rpc("GetTaskPushNotificationConfig", {"taskId": task_id, "id": "hook"})
    assert answer["result"].get("url") == endpoint.url, answer
    assert (await relay.notify(address, {"n": 1})).status_code == 503
