"""Our own telemetry of calls over gRPC: spans exported to a real receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from agents.grpc_agent import GrpcAgent, grpc_agent
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

from .test_telemetry import (  # noqa: F401  # some are fixtures
    CLIENT_SPAN_ID,
    TRACE_ID,
    TRACEPARENT,
    Collector,
    _plain_environment,
    collector,
    values,
)

VERSION = ("a2a-version", "1.0")
SERVICE = "lf.a2a.v1.A2AService"


@pytest.fixture
async def agent() -> AsyncIterator[GrpcAgent]:
    async with grpc_agent() as agent:
        yield agent


def message(text: str) -> a2a_pb2.SendMessageRequest:
    return a2a_pb2.SendMessageRequest(message={"message_id": "m", "role": "ROLE_USER", "parts": [{"text": text}]})


def stub(channel: grpc.aio.Channel) -> Any:
    return a2a_pb2_grpc.A2AServiceStub(channel)


@pytest.mark.parametrize("streams", [False, True], ids=["answer", "stream"])
async def test_spans_join_the_clients_trace_and_are_the_agents_parent(collector, agent, tmp_path, streams):  # noqa: F811
    async with running_proxy(agent.url, tmp_path) as proxy, grpc.aio.insecure_channel(proxy.grpc_address) as channel:
        metadata = (VERSION, ("traceparent", TRACEPARENT))
        if streams:
            [_ async for _ in stub(channel).SendStreamingMessage(message("artifact hi"), metadata=metadata)]
        else:
            await stub(channel).SendMessage(message("artifact hi"), metadata=metadata)
        await proxy.flush(PATIENCE_S)
        (turn,) = await proxy.turns()
    server, inner = collector.pair()
    name = f"{SERVICE}/{'SendStreamingMessage' if streams else 'SendMessage'}"
    assert server.name == inner.name == name
    assert server.trace_id.hex() == inner.trace_id.hex() == turn["trace_id"] == TRACE_ID
    assert (server.parent_span_id.hex(), inner.parent_span_id) == (CLIENT_SPAN_ID, server.span_id)
    (sent,) = [value for key, value in agent.seen[-1].metadata if key == "traceparent"]
    assert sent == f"00-{TRACE_ID}-{inner.span_id.hex()}-01"
    common = {"rpc.system.name": "grpc", "rpc.method": name, "rpc.response.status_code": "OK"}
    attributes = values(server.attributes)
    assert attributes.pop("client.port") > 0
    assert attributes == {**common, "client.address": "127.0.0.1"}
    port = int(agent.address.rpartition(":")[2])
    assert values(inner.attributes) == {**common, "server.address": "127.0.0.1", "server.port": port}
    assert {server.status.code, inner.status.code} == {Status.STATUS_CODE_UNSET}


async def test_the_status_of_a_call(collector, agent, tmp_path):  # noqa: F811
    """The client's mistake is no error of the server; methods that are not of A2A share one name."""
    async with running_proxy(agent.url, tmp_path) as proxy, grpc.aio.insecure_channel(proxy.grpc_address) as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await stub(channel).GetTask(a2a_pb2.GetTaskRequest(id="unknown"), metadata=(VERSION,))
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary("/some.Service/Of-" + "x" * 20)(b"")
        await agent.stop()
        with pytest.raises(grpc.aio.AioRpcError):
            await stub(channel).GetTask(a2a_pb2.GetTaskRequest(id="unknown"), metadata=(VERSION,))
    seen = {(span.kind, values(span.attributes)["rpc.response.status_code"]): span for span in collector.spans}
    kinds = {"server": Span.SPAN_KIND_SERVER, "client": Span.SPAN_KIND_CLIENT}
    failed = {
        (kind, code): seen[kinds[kind], code].status.code == Status.STATUS_CODE_ERROR
        for kind in kinds
        for code in ("NOT_FOUND", "UNIMPLEMENTED", "UNAVAILABLE")
    }
    assert [key for key in failed if not failed[key]] == [("server", "NOT_FOUND")]
    unknown = seen[kinds["server"], "UNIMPLEMENTED"]
    assert (unknown.name, values(unknown.attributes)["rpc.method"]) == ("grpc", "_OTHER")
    assert values(unknown.attributes)["rpc.method_original"] == "some.Service/Of-" + "x" * 20
