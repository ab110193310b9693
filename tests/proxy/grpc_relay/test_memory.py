"""Messages take bounded memory: clients that do not read, messages that are no messages, and floods of metadata."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.types import GetTaskRequest
from a2a_eval_proxy.body_memory import HeldBody
from a2a_eval_proxy.settings.parts import Timeouts
from agents.grpc_agent import UNLIMITED
from support.grpc_proxy import running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")
STREAM = "/test.Service/StreamStream"
ECHO = "/test.Service/UnaryUnary"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def quick(agent: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """A proxy that waits 0.2 s for clients to read."""
    folder = tmp_path_factory.mktemp("quick")
    async with running_proxy(agent.url, folder, timeouts=Timeouts(client_send=0.2)) as proxy:
        yield proxy


async def client_errors(proxy: Any) -> dict[str, int]:
    async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:
        text = (await admin.get("/metrics")).text
    found = re.findall(r'^a2a_eval_proxy_client_errors_total\{reason="(\w+)"\} (\d+)', text, re.MULTILINE)
    return {reason: int(number) for reason, number in found}


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_the_agent_waits_while_a_client_does_not_read_and_the_client_is_cut_off(agent, quick):
    async with grpc.aio.insecure_channel(quick.grpc_address, [*UNLIMITED, ("grpc.http2.bdp_probe", 0)]) as channel:
        errors, sent = await client_errors(quick), agent.service.sent
        call = channel.stream_stream(STREAM)()
        await call.write(b"flood" + b"x" * 64 * 1024)
        while await client_errors(quick) == errors:
            await asyncio.sleep(0.02)
        assert agent.service.sent - sent < 16
        with pytest.raises(grpc.aio.AioRpcError, match="did not read a message in time"):
            await read_all(call)
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await channel.unary_unary(ECHO)(b"x") == b"x"


async def test_a_request_without_room_is_refused(agent, tmp_path, monkeypatch):
    monkeypatch.setattr(HeldBody, "take", lambda self, more: False)
    async with (
        running_proxy(agent.url, tmp_path) as proxy,
        grpc.aio.insecure_channel(proxy.grpc_address) as channel,
    ):
        large = GetTaskRequest(id="x" * 100_000).SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError, match="take too much memory"):
            await channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")(large)
        assert await channel.unary_unary(ECHO)(b"x") == b"x"
