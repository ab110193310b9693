"""Streams of both directions through the ports: each message passes as it comes, whoever speaks first or ends first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from support.grpc_proxy import running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")
PARTS = [b"%d:" % number + b"x" * 1000 for number in range(1000)]


class Agent(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """A service of which the proxy knows nothing; one of its methods has the package of A2A."""

    def service(self, details: Any) -> Any:
        handlers = {
            "/test.Talk/Greet": grpc.stream_stream_rpc_method_handler(self._greet),
            "/test.Talk/Both": grpc.stream_stream_rpc_method_handler(self._both),
            "/lf.a2a.v1.A2AService/Converse": grpc.stream_stream_rpc_method_handler(self._both),
        }
        return handlers.get(details.method)

    async def _greet(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        yield b"hello"
        async for request in requests:
            yield request
            yield request.upper()

    async def _both(self, requests: AsyncIterator[bytes], context: Any) -> None:
        """Send everything, and receive it meanwhile."""

        async def receive() -> list[bytes]:
            return [request async for request in requests]

        receiving = asyncio.create_task(receive())
        for part in PARTS:
            await context.write(part)
        await context.write(b"same" if await receiving == PARTS else b"different")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent() -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([Agent()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["gRPC port", "data port"])
async def channel(agent: str, request: Any, tmp_path_factory: Any) -> AsyncIterator[Any]:
    folder = tmp_path_factory.mktemp("streams")
    async with running_proxy(f"grpc://{agent}", folder, negotiate="never") as proxy:
        address = proxy.grpc_address if request.param == "gRPC port" else proxy.url.removeprefix("http://")
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel


async def test_the_agent_may_speak_first(channel):
    call = channel.stream_stream("/test.Talk/Greet")()
    assert await call.read() == b"hello"
    for text in (b"a", b"b"):
        await call.write(text)
        assert [await call.read(), await call.read()] == [text, text.upper()]
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK


@pytest.mark.parametrize("method", ["/test.Talk/Both", "/lf.a2a.v1.A2AService/Converse"])
async def test_both_sides_send_at_the_same_time(channel, method):
    """A million bytes each way; also of a method of A2A that this proxy does not know."""
    call = channel.stream_stream(method)()

    async def send() -> None:
        for part in PARTS:
            await call.write(part)
        await call.done_writing()

    sending = asyncio.create_task(send())
    received = [message async for message in call]
    await sending
    assert received == [*PARTS, b"same"]
