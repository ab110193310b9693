"""Calls of any service pass the gRPC port as they are."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from agents.grpc_agent import UNLIMITED, grpc_agent
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")
SERVICE = "/test.Service/"


class Caller:
    """Calls methods of the test service at `address`, and describes what came back."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address, UNLIMITED)

    def begin(self, method: str, **options: Any) -> Any:
        return self.channel.stream_stream(_path(method))(**options)

    async def call(self, method: str, *requests: bytes, **options: Any) -> dict[str, Any]:
        messages = []
        try:
            if len(requests) == 1:  # sent with the call: `write` may fail if the other side has responded already
                call = self.channel.unary_stream(_path(method))(*requests, **options)
            else:
                call = self.begin(method, **options)
                for request in requests:
                    await call.write(request)
                await call.done_writing()
            while (message := await call.read()) is not grpc.aio.EOF:
                messages.append(message)
        except grpc.aio.AioRpcError:
            pass
        return {
            "messages": messages,
            "initial": list(await call.initial_metadata()),
            "trailing": list(await call.trailing_metadata()),
            "code": await call.code(),
            "details": await call.details(),
        }


def _path(method: str) -> str:
    return method if method[0] == "/" else SERVICE + method


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def direct(agent):
    caller = Caller(agent.address)
    yield caller
    await caller.channel.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxied(proxy):
    caller = Caller(proxy.grpc_address)
    yield caller
    await caller.channel.close()


@pytest_asyncio.fixture(loop_scope="module")
async def bare_agent():
    """HOST:PORT of a server without any service."""
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@pytest.mark.parametrize(
    ("method", "requests", "options"),
    [
        ("UnaryUnary", [b"echo"], {}),
        ("UnaryUnary", [b""], {}),
        ("UnaryUnary", [b"0123456789abcdef" * (5 * 1024 * 1024 // 16)], {}),
        ("UnaryUnary", [b"metadata"], {}),
        ("UnaryUnary", [b"abort"], {}),
        ("UnaryUnary", [b"own cancel"], {}),
        ("UnaryStream", [b"3"], {}),
        ("UnaryStream", [b"0"], {}),
        ("UnaryStream", [b"then abort"], {}),
        ("StreamUnary", [b"a", b"b", b"c"], {}),
        ("StreamUnary", [], {}),
        ("StreamStream", [b"a", b"b"], {}),
        ("StreamStream", [], {}),
        ("NoSuchMethod", [b"x"], {}),
        ("/no.such.Service/Method", [b"x"], {}),
        ("/grpc.health.v1.Health/Check", [b""], {}),
        ("/lf.a2a.v1.A2AService/NoSuchMethod", [b"x"], {}),
        ("/lf.a2a.v1.A2AService/GetTask", [b"\xff\xff not protobuf"], {}),
        ("/lf.a2a.v1.A2AService/GetTask", [b""], {}),
        ("/a2a.v1.A2AService/GetTask", [b""], {}),
        ("UnaryUnary", [b"x" * 100_000], {"compression": grpc.Compression.Gzip}),
        # 64 KiB of headers, as over HTTP: a token alone may have more than the 8 KiB of the library
        ("UnaryUnary", [b"large metadata"], {"metadata": (("x-large", "y" * 50_000),)}),
        # the agent decides about versions
        ("/lf.a2a.v1.A2AService/GetTask", [b""], {"metadata": (("a2a-version", "9.9"),)}),
        ("/lf.a2a.v1.A2AService/GetTask", [b""], {"metadata": (("a2a-version", "1.0"),)}),
    ],
)
async def test_calls_of_every_kind_have_the_same_outcome(direct, proxied, proxy, method, requests, options):
    responses = proxy.control.serving.metrics.responses
    expected, counted = await direct.call(method, *requests, **options), Counter(responses)
    assert await proxied.call(method, *requests, **options) == expected
    assert responses - counted == {expected["code"].name: 1}
    assert expected["messages"] or requests != [b"echo"]


async def test_a_configured_header_replaces_metadata_of_the_client(agent, proxied):
    del agent.seen[:]
    await proxied.call("UnaryUnary", b"x", metadata=(("x-agent-key", "mine"),))
    assert [value for key, value in agent.seen[0].metadata if key == "x-agent-key"] == ["secret"]


async def test_the_agent_sees_how_much_time_is_left(agent, proxied):
    await proxied.call("UnaryUnary", b"x", timeout=1000)
    await proxied.call("UnaryUnary", b"x")
    with_deadline, without = agent.service.time_left[-2:]
    assert 0 < with_deadline < 1100  # gRPC rounds up
    assert without is None


async def test_the_agent_sees_that_a_client_cancels(agent, proxied):
    agent.service.cancelled.clear()
    agent.service.waiting.clear()
    call = proxied.begin("UnaryUnary")
    await call.write(b"wait")
    await asyncio.wait_for(agent.service.waiting.wait(), PATIENCE_S)
    call.cancel()
    await asyncio.wait_for(agent.service.cancelled.wait(), PATIENCE_S)


async def test_an_agent_that_is_down_is_unavailable(tmp_path: Path):
    async with grpc_agent() as agent, running_proxy(agent.url, tmp_path) as proxy:
        caller = Caller(proxy.grpc_address)
        assert (await caller.call("UnaryUnary", b"x"))["code"] is grpc.StatusCode.OK
        await agent.stop()
        outcome = await caller.call("UnaryUnary", b"x")
        await caller.channel.close()
    assert outcome["code"] is grpc.StatusCode.UNAVAILABLE
    assert outcome["trailing"] == []


@pytest.mark.parametrize("path", ["/no.such.Service/Method", "/lf.a2a.v1.A2AService/GetTask"])
async def test_the_status_of_an_agent_that_refuses_at_once(bare_agent, tmp_path, path):
    """As an interceptor does that checks credentials: without reading the message."""
    async with (
        running_proxy(f"grpc://{bare_agent}", tmp_path, negotiate="never") as proxy,
        grpc.aio.insecure_channel(proxy.grpc_address) as channel,
    ):
        codes = Counter([await channel.unary_unary(path)(b"x").code() for _ in range(200)])
    assert codes == {grpc.StatusCode.UNIMPLEMENTED: 200}


async def test_calls_on_the_data_port_of_a_proxy_that_relays_none(agent, tmp_path):
    async with running_proxy(agent.url, tmp_path, grpc=None) as proxy:
        caller = Caller(proxy.url.removeprefix("http://"))
        outcome = await caller.call("UnaryUnary", b"a")
        await caller.channel.close()
    assert outcome["code"] is grpc.StatusCode.UNIMPLEMENTED
    assert "--grpc HOST:PORT" in outcome["details"]
