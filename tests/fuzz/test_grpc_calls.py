"""Random calls over gRPC through the proxy, and faults planted in it, which they find."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio
from a2a_eval_proxy.grpc_relay import relayed_call
from a2a_eval_proxy.grpc_relay.relayed_call import RelayedCall
from fuzz import grpc_calls
from fuzz.grpc_calls import FuzzAgent, faults
from support.grpc_proxy import running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")
CALLS = 150


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent() -> AsyncIterator[tuple[FuzzAgent, str]]:
    """The agent, and HOST:PORT of it."""
    agent, server = FuzzAgent(), grpc.aio.server()
    server.add_generic_rpc_handlers((agent,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield agent, f"127.0.0.1:{port}"
    await server.stop(0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(agent: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    async with running_proxy(f"grpc://{agent[1]}", tmp_path_factory.mktemp("fuzz"), negotiate="always") as proxy:
        yield proxy


async def test_the_agent_alone_has_no_faults(agent):
    assert await faults(1, CALLS, agent[1], agent[0]) == []


async def test_nothing_crosses_leaks_hangs_or_differs(agent, proxy):
    before = len(asyncio.all_tasks())
    seed = int.from_bytes(os.urandom(4))
    assert await faults(seed, CALLS, proxy.grpc_address, agent[0]) == [], f"seed {seed}"
    async with asyncio.timeout(60):  # calls of clients that left end a little later
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0.01)


def drops_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relayed_call, "strip_headers", lambda fields: [one for one in fields if one[0][:1] == b":"])


def drops_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    show = RelayedCall._show

    async def some(self: RelayedCall, content: bytes, *, end: bool = False) -> None:
        await show(self, b"" if b" 1 " in content[:35] else content, end=end)

    monkeypatch.setattr(RelayedCall, "_show", some)


def crosses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    show, last = RelayedCall._show, [b""]

    async def another(self: RelayedCall, content: bytes, *, end: bool = False) -> None:
        sent, last[0] = (last[0] or content), content
        await show(self, sent, end=end)

    monkeypatch.setattr(RelayedCall, "_show", another)


@pytest.mark.parametrize("plant", [drops_metadata, drops_a_message, crosses_messages])
async def test_planted_faults_are_found(agent, proxy, monkeypatch, plant: Callable[[pytest.MonkeyPatch], None]):
    monkeypatch.setattr(grpc_calls, "HANG_S", 2.0)  # who waits for a message that a fault has lost waits for good
    plant(monkeypatch)
    assert await faults(2, 40, proxy.grpc_address, agent[0])
