"""What the gRPC port refuses, what it repeats (nothing), and how it ends."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from a2a.types import (
    Artifact,
    GetTaskRequest,
    Part,
    SendMessageRequest,
    SendMessageResponse,
    Task,
    a2a_pb2_grpc,
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
    async with calling(proxy) as caller:
        outcome = await caller.call("UnaryUnary", b"unavailable")
    assert (outcome["code"], outcome["details"]) == (grpc.StatusCode.UNAVAILABLE, "try again")
    assert [seen.path for seen in agent.seen] == ["/test.Service/UnaryUnary"]


@pytest.mark.parametrize("version", ["0.3", "1.0", "9.9", "x", None])
@pytest.mark.parametrize("service", ["lf.a2a.v1", "a2a.v1"])
async def test_the_agent_decides_about_versions(agent, proxy, service, version):
    metadata = () if version is None else (("a2a-version", version),)
    outcomes = []
    for address in (agent.address, proxy.grpc_address):
        del agent.seen[:]
        caller = Caller(address)
        outcomes.append(await caller.call(f"/{service}.A2AService/GetTask", b"", metadata=metadata))
        await caller.channel.close()
        assert [value for key, value in agent.seen[0].metadata if key == "a2a-version"] == [v for _, v in metadata]
    assert outcomes[0] == outcomes[1]


async def test_a_client_may_compress(agent, proxy):
    async with calling(proxy) as caller:
        text = b"x" * 100_000
        assert (await caller.call("UnaryUnary", text, compression=grpc.Compression.Gzip))["messages"] == [text]


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


async def test_metadata_up_to_the_limit_of_headers_passes_both_ways(agent, proxy):
    """64 KiB, as over HTTP: a token alone may have more than the 8 KiB of the library."""
    outcomes = []
    for address in (agent.address, proxy.grpc_address):
        del agent.seen[:]
        caller = Caller(address)
        outcomes.append(await caller.call("UnaryUnary", b"large metadata", metadata=(("x-large", "y" * 50_000),)))
        await caller.channel.close()
        assert ("x-large", "y" * 50_000) in agent.seen[0].metadata
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["code"] is grpc.StatusCode.OK


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
    """The URL of an agent that answers GetTask with this message."""

    async def answer(request: bytes, context: Any) -> bytes:
        return message

    handlers = {"GetTask": grpc.unary_unary_rpc_method_handler(answer)}
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


async def test_any_number_of_parts_passes_without_the_extension(tmp_path):
    artifact = Artifact(artifact_id="a", parts=[Part(text="x")] * 150_000, extensions=[URI])
    async with (
        answering(Task(id="t", artifacts=[artifact]).SerializeToString()) as upstream,
        running_proxy(upstream, tmp_path, negotiate="always") as proxy,
        calling(proxy) as caller,
    ):
        outcome = await caller.call(GET_TASK, b"\x0a\x01t")
    artifact.extensions.pop()
    assert outcome["messages"] == [Task(id="t", artifacts=[artifact]).SerializeToString()]


class _Agent(a2a_pb2_grpc.A2AServiceServicer):
    """Reports two calls, the second one with these arguments, to whom asks; `asked` is whether the last request did."""

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self.asked = False

    async def SendMessage(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.asked = ("a2a-extensions", URI) in context.invocation_metadata()
        calls = [{"name": "first", "arguments": {}}, {"name": "second", "arguments": self._arguments}]
        only_calls = {"artifact_id": "calls", "extensions": [URI], "metadata": {METADATA_KEY: calls}}
        answer = {"artifact_id": "answer", "parts": [{"text": "4"}]}
        artifacts = [answer, *([only_calls] if self.asked else [])]
        task = Task(id="t", context_id="c", status={"state": "TASK_STATE_COMPLETED"}, artifacts=artifacts)
        return SendMessageResponse(task=task)


@pytest.mark.parametrize("value", [math.nan, -math.inf, [0.5] * 60_000], ids=["nan", "infinite", "many"])
async def test_a_call_that_json_cannot_carry_costs_nobody_an_answer(tmp_path, value):
    """NaN and infinities are text, as over HTTP; a message with too many values is not captured."""
    agent, server = _Agent({"x": value}), grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(agent, server)
    upstream = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    message = {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "2 + 2"}]}
    request = SendMessageRequest(message=message)
    try:
        async with (
            running_proxy(upstream, tmp_path, negotiate="always") as proxy,
            grpc.aio.insecure_channel(proxy.grpc_address) as channel,
        ):
            for _ in range(2):
                agent.asked = False
                task = (await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(request)).task
                assert agent.asked
                assert [artifact.artifact_id for artifact in task.artifacts] == ["answer"]
                assert task.artifacts[0].parts[0].text == "4"
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()
    finally:
        await server.stop(0)
    for turn in turns:
        found = {call["name"]: call["arguments"] for call in turn["tool_calls"]}
        if isinstance(value, list):
            assert not found
            assert "unreadable_message" in {finding["code"] for finding in turn["findings"]}
        else:
            assert (turn["state"], turn["response_text"]) == ("TASK_STATE_COMPLETED", "4")
            assert found == {"first": {}, "second": {"x": str(value)}}


async def test_open_calls_finish_and_new_ones_are_refused_when_the_proxy_stops(agent, tmp_path):
    async with AsyncExitStack() as running:
        proxy = await running.enter_async_context(running_proxy(agent.url, tmp_path))
        async with calling(proxy) as caller, calling(proxy) as late:
            call = caller.begin("StreamStream")
            await call.write(b"1")
            assert await call.read() == b"re: 1"
            assert (await late.call("UnaryUnary", b"x"))["code"] is grpc.StatusCode.OK
            stopping = asyncio.create_task(running.aclose())
            while (refused := await late.call("UnaryUnary", b"x"))["code"] is grpc.StatusCode.OK:
                pass
            assert "refused" in refused["details"]  # and not when the client gives up connecting
            await call.write(b"2")
            assert await call.read() == b"re: 2"
            await call.done_writing()
            assert [await call.read(), await call.read()] == [b"end", grpc.aio.EOF]
            assert await call.code() is grpc.StatusCode.OK
            await stopping
