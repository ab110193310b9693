"""What the gRPC port refuses, what it repeats (nothing), and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from a2a.types import (
    GetTaskRequest,
    SendMessageRequest,
    SendMessageResponse,
    Task,
)
from a2a_eval_proxy.settings.parts import Timeouts, TrafficLimits
from a2a_tool_capture import METADATA_KEY, URI
from proxy.grpc_relay.test_calls import Caller
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")
GET_TASK = "/lf.a2a.v1.A2AService/GetTask"

SMALL, ONE = TrafficLimits(body_bytes=1000, header_bytes=1000), TrafficLimits(client_connections=1)


@asynccontextmanager
async def calling(proxy: Any) -> AsyncIterator[Caller]:
    caller = Caller(proxy.grpc_address)
    try:
        yield caller
    finally:
        await caller.channel.close()


async def test_a_call_is_never_repeated(agent, proxy):
    """Also where the agent's status invites it."""
    del agent.seen[:]
    errors = proxy.control.serving.metrics.upstream_errors
    async with calling(proxy) as caller:
        outcome = await caller.call("UnaryUnary", b"unavailable")
    assert proxy.control.serving.metrics.upstream_errors == errors + 1
    assert (outcome["code"], outcome["details"]) == (grpc.StatusCode.UNAVAILABLE, "try again")
    assert [seen.path for seen in agent.seen] == ["/test.Service/UnaryUnary"]


@pytest.mark.parametrize(
    ("method", "message", "metadata", "refused"),
    [
        (GET_TASK, GetTaskRequest(id="t" * 2000).SerializeToString(), (), "limits.body_bytes"),
        ("UnaryUnary", b"x" * 2000, (), None),  # those of other services pass, whatever their size
        ("UnaryUnary", b"x", (("x", "y" * 1000),), ""),
        ("UnaryUnary", b"x", (("x", "y" * 300),), None),
    ],
)
async def test_what_is_beyond_the_limits_is_refused(agent, tmp_path, method, message, metadata, refused):
    async with running_proxy(agent.url, tmp_path, limits=SMALL) as proxy, calling(proxy) as caller:
        del agent.seen[:]
        outcome = await caller.call(method, message, metadata=metadata)
    if refused is None:
        assert outcome["messages"] == [message]
    else:
        assert (outcome["code"], agent.seen) == (grpc.StatusCode.RESOURCE_EXHAUSTED, [])
        assert refused in outcome["details"]


async def test_a_message_of_a2a_that_does_not_come_is_not_waited_for(agent, tmp_path):
    """A stream of another service may be silent for as long as it likes."""
    async with (
        running_proxy(agent.url, tmp_path, timeouts=Timeouts(client_body=0.01)) as proxy,
        grpc.aio.insecure_channel(proxy.grpc_address) as channel,
    ):
        other = channel.stream_stream("/test.Service/StreamStream")()
        call = channel.stream_unary(GET_TASK)()
        with pytest.raises(grpc.aio.AioRpcError, match=r"timeouts\.client_body") as refused:
            await call
        assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await other.write(b"x")
        assert await other.read() == b"re: x"


async def test_an_answer_of_a2a_beyond_the_limit_is_refused(tmp_path):
    async with (
        answering(Task(id="t" * 2000).SerializeToString()) as upstream,
        running_proxy(upstream, tmp_path, limits=SMALL) as proxy,
        calling(proxy) as caller,
    ):
        outcome = await caller.call(GET_TASK, b"\x0a\x01t")
    assert outcome["code"] is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert outcome["messages"] == []


async def test_metadata_that_http_2_forbids_is_removed(agent, proxy):
    """RFC 9113, section 8.2.2. What `connection` names is removed, too."""
    metadata = (("connection", "x-hop"), ("x-hop", "1"), ("upgrade", "h2c"), ("host", "other"), ("x-kept", "1"))
    del agent.seen[:]
    async with calling(proxy) as caller:
        await caller.call("UnaryUnary", b"x", metadata=metadata)
    keys = {key for key, _ in agent.seen[0].metadata}
    assert keys & {key for key, _ in metadata} == {"x-kept"}


async def test_calls_beyond_the_limit_are_refused(agent, tmp_path):
    agent.service.waiting.clear()
    async with (
        running_proxy(agent.url, tmp_path, limits=ONE) as proxy,
        calling(proxy) as caller,
    ):
        first = caller.begin("UnaryUnary")
        await first.write(b"wait")
        await asyncio.wait_for(agent.service.waiting.wait(), PATIENCE_S)
        assert (await caller.call("UnaryUnary", b"x"))["code"] is grpc.StatusCode.RESOURCE_EXHAUSTED
        first.cancel()


async def test_an_agent_whose_card_names_no_grpc_interface(tmp_path):
    async with running_proxy("http://127.0.0.1:9", tmp_path) as proxy, calling(proxy) as caller:
        outcome = await caller.call("UnaryUnary", b"x")
    assert outcome["code"] is grpc.StatusCode.UNAVAILABLE
    assert "--upstream" in outcome["details"]


@asynccontextmanager
async def answering(message: bytes) -> AsyncIterator[str]:
    """The URL of an agent that answers GetTask and SendMessage with this message."""

    async def answer(request: bytes, context: Any) -> bytes:
        return message

    handlers = dict.fromkeys(("GetTask", "SendMessage"), grpc.unary_unary_rpc_method_handler(answer))
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"grpc://127.0.0.1:{port}"
    await server.stop(0)


@pytest.mark.parametrize("asking", [True, False])
async def test_a_message_that_names_the_extension_and_cannot_be_read(tmp_path, asking):
    """Only a client that asked for the extension gets it."""
    junk = b"\xff\xff" + URI.encode()
    async with (
        answering(junk) as upstream,
        running_proxy(upstream, tmp_path, negotiate="always") as proxy,
        calling(proxy) as caller,
    ):
        metadata = (("a2a-extensions", URI),) if asking else ()
        outcomes = [await caller.call(GET_TASK, b"\x0a\x01t", metadata=metadata) for _ in range(2)]
    for outcome in outcomes:  # the proxy continues to ask, or the second client would get it
        if asking:
            assert outcome["messages"] == [junk]
        else:
            assert outcome["code"] is grpc.StatusCode.INTERNAL
            assert "may hold tool calls" in outcome["details"]


async def test_a_message_with_too_many_values_costs_nobody_an_answer(tmp_path):
    """It is relayed, and not captured."""
    calls = {METADATA_KEY: [{"name": "many", "arguments": {"x": [0.5] * 60_000}}]}
    own = {"artifact_id": "calls", "extensions": [URI], "metadata": calls}
    answer = {"artifact_id": "answer", "parts": [{"text": "4"}]}
    task = Task(id="t", context_id="c", status={"state": "TASK_STATE_COMPLETED"}, artifacts=[answer, own])
    request = SendMessageRequest(message={"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "2 + 2"}]})
    async with (
        answering(SendMessageResponse(task=task).SerializeToString()) as upstream,
        running_proxy(upstream, tmp_path, negotiate="always") as proxy,
        calling(proxy) as caller,
    ):
        outcome = await caller.call("/lf.a2a.v1.A2AService/SendMessage", request.SerializeToString())
        await proxy.flush(PATIENCE_S)
        (turn,) = await proxy.turns()
    (shown,) = [SendMessageResponse.FromString(message).task for message in outcome["messages"]]
    assert [artifact.artifact_id for artifact in shown.artifacts] == ["answer"]
    assert turn["tool_calls"] == []
    assert "unreadable_message" in {finding["code"] for finding in turn["findings"]}
