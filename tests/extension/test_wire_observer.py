"""What an observer hears of a client's requests, and that it changes nothing of their answers."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from a2a_tool_capture.wire_observer import Fields, grpc_interceptors, observing
from google.protobuf.struct_pb2 import Struct


class _Heard:
    """An observer, and the exchange that it makes of each request."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def request(self, method: str, target: str, headers: Fields, body: bytes) -> _Heard:
        self.said.append((method, target, body))
        return self

    def response(self, status: int, headers: Fields) -> None:
        self.said.append(status)

    def data(self, data: bytes) -> None:
        self.said.append(data)

    def end(self, problem: str) -> None:
        self.said.append(problem)


def struct(**fields: Any) -> Struct:
    made = Struct()
    made.update(fields)
    return made


async def _unary(request: Struct, context: Any) -> Struct:
    if "abort" in request:
        await context.abort(grpc.StatusCode.ABORTED, "enough")
    return struct(a=math.nan) if "nan" in request else request


async def _stream(request: Struct, context: Any) -> AsyncIterator[Struct]:
    yield request
    yield await _unary(request, context)


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server()
    form = {"request_deserializer": Struct.FromString, "response_serializer": Struct.SerializeToString}
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(_unary, **form),
        "Stream": grpc.unary_stream_rpc_method_handler(_stream, **form),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("t.T", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=grpc_interceptors()) as channel:
        yield channel
    await server.stop(0)


async def called(channel: grpc.aio.Channel, name: str, request: Struct) -> list[Struct]:
    form = {"request_serializer": Struct.SerializeToString, "response_deserializer": Struct.FromString}
    metadata = (("authorization", "Bearer t"), ("key-bin", b"\n"))
    if name == "Unary":
        return [await channel.unary_unary("/t.T/Unary", **form)(request, metadata=metadata)]
    return [message async for message in channel.unary_stream("/t.T/Stream", **form)(request, metadata=metadata)]


@pytest.mark.parametrize(("name", "answers"), [("Unary", 1), ("Stream", 2)])
async def test_messages_of_grpc_are_heard_as_json(channel: grpc.aio.Channel, name: str, answers: int) -> None:
    heard, sent = _Heard(), struct(a="ü")
    with observing(heard):
        assert await called(channel, name, sent) == [sent] * answers
    asked, status, *rest = heard.said
    assert (asked[:2], json.loads(asked[2]), status) == (("POST", f"/t.T/{name}"), {"a": "ü"}, 200)
    assert [*map(json.loads, rest[:-1]), rest[-1]] == [{"a": "ü"}] * answers + [""]
    del heard.said[:]
    assert await called(channel, name, sent) == [sent] * answers
    assert heard.said == []


@pytest.mark.parametrize("name", ["Unary", "Stream"])
async def test_what_json_cannot_hold_reaches_the_client(channel: grpc.aio.Channel, name: str) -> None:
    heard = _Heard()
    with observing(heard):
        *_, last = await called(channel, name, struct(nan=1))
    assert math.isnan(last["a"])
    assert math.isnan(Struct.FromString(heard.said[-2])["a"])
    assert heard.said[-1] == ""


@pytest.mark.parametrize("name", ["Unary", "Stream"])
async def test_the_status_of_a_call_that_fails_is_heard(channel: grpc.aio.Channel, name: str) -> None:
    heard = _Heard()
    with observing(heard), pytest.raises(grpc.aio.AioRpcError) as error:
        await called(channel, name, struct(abort=1))
    assert error.value.code() is grpc.StatusCode.ABORTED
    assert heard.said[-1] == "ABORTED"
