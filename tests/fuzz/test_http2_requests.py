"""Random requests over HTTP/2 through the proxy, and faults planted in it, which they find."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from a2a_eval_proxy.net import http2_exchange
from a2a_eval_proxy.net.http2_exchange import StreamExchange
from fuzz.http2_requests import faults, fuzz_agent
from support.grpc_proxy import running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")
REQUESTS = 150


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    async with fuzz_agent() as url, running_proxy(url, tmp_path_factory.mktemp("fuzz"), negotiate="always") as proxy:
        yield proxy


async def test_over_http_1_there_are_no_faults(proxy):
    assert await faults(1, REQUESTS, proxy.url, http2=False) == []


async def test_nothing_crosses_leaks_hangs_or_differs(proxy):
    seed = int.from_bytes(os.urandom(3))
    assert await faults(seed, REQUESTS, proxy.url) == [], f"seed {seed}"
    async with asyncio.timeout(60):  # requests of clients that left end a little later
        while proxy.serving.metrics.requests > proxy.serving.metrics.responses.total():
            await asyncio.sleep(0.01)
    assert not proxy.serving.metrics.client_errors


def ends_what_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(self: StreamExchange) -> None:
        self._stream.send_data(b"", end=True)
        self._leave()

    monkeypatch.setattr(StreamExchange, "_cut", cut)


def loses_a_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    write = StreamExchange.write

    async def some(self: StreamExchange, data: bytes, *, more: bool = True) -> None:
        await write(self, data[:-1] if len(data) > 50_000 else data, more=more)

    monkeypatch.setattr(StreamExchange, "write", some)


def crosses_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    read, last = StreamExchange.read, [b""]

    async def other(self: StreamExchange) -> bytes:
        body = await read(self)
        if len(body) == 100:
            body, last[0] = last[0] or body, body
        return body

    monkeypatch.setattr(StreamExchange, "read", other)


def drops_cookies(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = http2_exchange.request_scope
    kept = [(b"cookie", b"none")]
    monkeypatch.setattr(
        http2_exchange,
        "request_scope",
        lambda fields: scope([field for field in fields if field[0] != b"cookie"] + kept),
    )


@pytest.mark.parametrize("plant", [ends_what_is_cut, loses_a_byte, crosses_bodies, drops_cookies])
async def test_a_planted_fault_is_found(proxy, monkeypatch, plant: Callable[[pytest.MonkeyPatch], None]):
    plant(monkeypatch)
    assert await faults(2, REQUESTS, proxy.url, hang_s=5)
