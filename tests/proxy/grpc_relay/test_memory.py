"""Messages take bounded memory: clients that do not read, messages that are no messages, and floods of metadata."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.types import GetTaskRequest, SendMessageRequest
from a2a_eval_proxy.body_memory import HeldBody
from a2a_eval_proxy.grpc_relay.relayed_call import RelayedCall
from a2a_eval_proxy.net.http2_streams import Headers
from a2a_eval_proxy.settings.parts import Timeouts
from agents.grpc_agent import UNLIMITED
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S
from support.raw_http2 import PREFACE, deliver

pytestmark = pytest.mark.asyncio(loop_scope="module")
STREAM = "/test.Service/StreamStream"
ECHO = "/test.Service/UnaryUnary"
MB = 1024 * 1024


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


async def flooded(channel: grpc.aio.Channel, size: int) -> Any:
    """A call whose client reads nothing of a thousand messages of `size` bytes."""
    call = channel.stream_stream(STREAM)()
    await call.write(b"flood" + b"x" * size)
    return call


async def finished_flood(channel: grpc.aio.Channel, size: int) -> Any:
    """As `flooded`, after which the client has nothing more to say."""
    call = await flooded(channel, size)
    await call.done_writing()
    return call


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_a_client_that_never_reads_is_cut_off(agent, quick):
    async with grpc.aio.insecure_channel(quick.grpc_address, UNLIMITED) as channel:
        before = await client_errors(quick)
        call = await flooded(channel, MB)
        while await client_errors(quick) == before:
            await asyncio.sleep(0.02)
        with pytest.raises(grpc.aio.AioRpcError, match="did not read a message in time"):
            await read_all(call)
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await channel.unary_unary(ECHO)(b"x") == b"x"


async def test_the_agent_waits_while_a_client_does_not_read(agent, quick):
    """Also on connections that earlier calls have used at full speed, where gRPC would widen its windows."""
    async with grpc.aio.insecure_channel(quick.grpc_address, [*UNLIMITED, ("grpc.http2.bdp_probe", 0)]) as channel:
        while not await reads_all_in_time(channel):  # the machine stood still
            pass
        errors, sent = await client_errors(quick), agent.service.sent
        call = await flooded(channel, 64 * 1024)
        while await client_errors(quick) == errors:
            await asyncio.sleep(0.02)
        assert agent.service.sent - sent < 16
        with pytest.raises(grpc.aio.AioRpcError, match="did not read a message in time"):
            await read_all(call)


async def reads_all_in_time(channel: grpc.aio.Channel) -> bool:
    try:
        await read_all(await finished_flood(channel, 64 * 1024))
    except grpc.aio.AioRpcError:
        return False
    return True


async def test_clients_that_read_slowly_are_not_cut_off(agent, tmp_path):
    """Each message that is read counts as reading."""
    for limit_s in (0.4, 4, 20):  # where the machine stands still for longer, the next is tried
        if await reads_slowly(agent, tmp_path, limit_s):
            return
    pytest.fail("a client that reads within each limit is cut off")


async def reads_slowly(agent: Any, folder: Path, limit_s: float) -> bool:
    """Whether a client that reads often within the limit, and for longer than that in all, is served."""
    async with (
        running_proxy(agent.url, folder, timeouts=Timeouts(client_send=limit_s)) as proxy,
        grpc.aio.insecure_channel(proxy.grpc_address, UNLIMITED) as channel,
    ):
        call = await flooded(channel, MB)
        try:
            for _ in range(40):
                await call.read()
                await asyncio.sleep(limit_s / 20)
        except grpc.aio.AioRpcError:
            return False
        served = not any((await client_errors(proxy)).values())
        call.cancel()
        return served


async def test_a_call_is_forgotten_at_once(proxy, monkeypatch):
    """It is part of no cycle, for which a garbage collector would have to look."""
    calls: list[weakref.ref[RelayedCall]] = []
    run = RelayedCall.run

    async def noted(call: RelayedCall, head: Headers) -> None:
        calls.append(weakref.ref(call))
        await run(call, head)

    monkeypatch.setattr(RelayedCall, "run", noted)
    message = {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "artifact"}]}
    request = SendMessageRequest(message=message).SerializeToString()
    gc.disable()
    try:
        async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
            for method in ("SendMessage", "SendStreamingMessage"):
                call = channel.unary_stream(f"/lf.a2a.v1.A2AService/{method}")(
                    request, metadata=[("a2a-version", "1.0")]
                )
                assert [answer async for answer in call]
        async with asyncio.timeout(PATIENCE_S):  # not reached where it works
            while any(call() for call in calls):
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
    assert len(calls) == 2


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


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 10_000,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        PREFACE + b"\xff" * 1000,
        PREFACE + b"\x00\x00\x05\x01\x04\x00\x00\x00\x01" + b"\xff" * 5,  # a header section that HPACK cannot read
        PREFACE + b"\x00\x00\x04\x03\x00\x00\x00\x00\x01" + b"\x00" * 4,  # RST_STREAM of a stream that is not open
    ],
)
async def test_bytes_that_are_no_call(proxy, data):
    await asyncio.to_thread(deliver, proxy.grpc_address, data)
    async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
        assert await channel.unary_unary(ECHO)(b"x") == b"x"
