"""`check --via` over gRPC: each fault of a broken proxy, which is grpc.aio alone, is named, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from a2a.types import a2a_pb2
from a2a_eval_proxy.check.compare.comparison import InterfaceComparison, Side
from a2a_eval_proxy.check.compare.differences import OperationComparison
from a2a_eval_proxy.check.probe.client import AgentTransport
from a2a_eval_proxy.check.probe.record import Interface
from a2a_eval_proxy.protocol.operations import Binding
from agents.grpc_agent import grpc_agent

pytestmark = pytest.mark.asyncio(loop_scope="module")
Metadata = tuple[tuple[str, Any], ...]


def _same(value: Any) -> Any:
    return value


@dataclass
class BrokenGrpcProxy(grpc.GenericRpcHandler):
    """Passes every call to `agent`, and breaks one thing."""

    agent: str
    sent: Callable[[Metadata], Metadata] = _same
    initial: Callable[[Metadata], Metadata] = _same
    trailing: Callable[[Metadata], Metadata] = _same
    message: Callable[[str], str] = _same
    messages: Callable[[list[bytes]], list[bytes]] = _same

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def relay(request: bytes, context: Any) -> AsyncIterator[bytes]:
            metadata = tuple((key, value) for key, value in context.invocation_metadata() if key != "user-agent")
            async with grpc.aio.insecure_channel(self.agent) as channel:
                call = channel.unary_stream(details.method)(request, metadata=self.sent(metadata))
                found: list[bytes] = []
                try:
                    await context.send_initial_metadata(self.initial(tuple(await call.initial_metadata())))
                    found += [message async for message in call]
                except grpc.aio.AioRpcError:
                    pass
                for message in self.messages(found):
                    yield message
                trailing = self.trailing(tuple(await call.trailing_metadata()))
                code, text = await call.code(), await call.details()
                if code is grpc.StatusCode.OK:
                    context.set_trailing_metadata(trailing)
                else:
                    await context.abort(code, self.message(text), trailing)

        return grpc.unary_stream_rpc_method_handler(relay)


@asynccontextmanager
async def serving(proxy: BrokenGrpcProxy) -> AsyncIterator[str]:
    """HOST:PORT of the proxy."""
    server = grpc.aio.server(handlers=[proxy])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent():
    async with grpc_agent() as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def behind(agent):
    """Runs a comparison of the 1.0 interface behind a proxy that breaks something."""

    async def run(**breakage: Any) -> list[OperationComparison]:
        proxy = BrokenGrpcProxy(agent.address, **breakage)
        async with serving(proxy) as address, AgentTransport({}, 20, None, grpc_tls=False) as sender:
            direct, proxied = (Interface(Binding.GRPC, "1.0", each) for each in (agent.address, address))
            first, again, last = (Side(sender, each) for each in (direct, direct, proxied))
            walk = InterfaceComparison(direct, (first, again, last), lambda what: None)
            return await walk.run(["chunks please"], streams=True, pushes=False)

    return run


def without(*names: str) -> Callable[[Metadata], Metadata]:
    return lambda metadata: tuple(entry for entry in metadata if entry[0] not in names)


def one_more(metadata: Metadata) -> Metadata:
    return (*metadata, ("x-proxy", "1"))


def asking(metadata: Metadata) -> Metadata:
    return (
        *without("a2a-extensions")(metadata),
        ("a2a-extensions", "https://arksim.arklex.ai/a2a/tool-call-capture/v1"),
    )


def renamed(messages: list[bytes]) -> list[bytes]:
    """Another name in every card, which is what has one."""
    if len(messages) != 1 or b"Scenario agent" not in messages[0]:
        return messages
    card = a2a_pb2.AgentCard.FromString(messages[0])
    card.name = "Other"
    return [card.SerializeToString()]


STREAMS, SENDS = ({name, f"{name} (asking for tool calls)"} for name in ("stream", "send"))
DETAILED = {"subscribe", "cancel", "unknown task", "wrong version"}
ERRORS = {*DETAILED, "unknown method", "malformed body"}
ANSWERED = {*STREAMS, *SENDS, "get", "get (asking for tool calls)", "list", "extended card"}


@pytest.mark.parametrize(
    ("breakage", "expected"),
    [
        ({}, {}),
        ({"trailing": without("grpc-status-details-bin")}, {"status details": DETAILED}),
        ({"trailing": one_more}, {"trailing metadata x-proxy": ANSWERED | ERRORS}),
        ({"initial": one_more}, {"header x-proxy": ANSWERED | ERRORS}),
        ({"message": lambda text: "failed"}, {"status message": ERRORS}),
        ({"messages": lambda messages: messages[:7]}, {"events": STREAMS}),
        ({"messages": renamed}, {"body: name": {"extended card"}}),
        (
            {"sent": without("a2a-extensions")},
            {"tool calls": {f"{name} (asking for tool calls)" for name in ("send", "stream", "get")}},
        ),
        ({"sent": asking}, {"tool calls": {"send", "stream", "get", "list"}}),
    ],
    ids=lambda value: ", ".join(value),
)
async def test_each_fault_of_a_grpc_proxy_is_named(behind, breakage, expected) -> None:
    found: dict[str, set[str]] = {}
    for one in await behind(**breakage):
        for delta in one.faults:
            found.setdefault(delta.what, set()).add(one.operation)
    if "tool calls" in expected:  # what they change in the messages is named, too
        found = {what: operations for what, operations in found.items() if what == "tool calls"}
    assert found == expected
