"""An agent that shows tool calls everywhere and to everyone: clients that did not ask get none, over both services."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio
from a2a_eval_proxy.grpc_relay.error_details import shown_error
from a2a_eval_proxy.grpc_relay.messages import METHODS
from a2a_eval_proxy.net.grpc_wire import encoded_value
from a2a_eval_proxy.protocol.operations import CARRIES_TASKS
from agents.scenarios import METADATA_KEY, URI
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from support.grpc_proxy import running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")
MARK = b"tool-call-capture"
ECHO = (("a2a-extensions", URI), ("x-a2a-extensions", f"urn:other, {URI}"), ("x-kept", "yes"))
DETAILS = "grpc-status-details-bin"
READS = [path for path, method in METHODS.items() if method.operation in CARRIES_TASKS]
STRUCT = "google.protobuf.Struct"


def filled(message: Message, depth: int = 6) -> Message:
    """With tool calls at every position that can hold them."""
    for field in message.DESCRIPTOR.fields:
        kind = field.message_type
        if field.containing_oneof is not None and message.WhichOneof(field.containing_oneof.name):
            continue
        if kind is None:
            if field.name == "extensions":
                getattr(message, field.name).append(URI)
            elif field.type == field.TYPE_STRING and not field.is_repeated:
                setattr(message, field.name, "words")
        elif kind.full_name == STRUCT:
            getattr(message, field.name).update({METADATA_KEY: [{"id": "1", "name": "search", "arguments": {}}]})
        elif depth and not kind.full_name.startswith("google."):
            held = getattr(message, field.name)
            filled(held.add() if field.is_repeated else held, depth - 1)
            if not field.is_repeated:
                held.SetInParent()
    return message


def answers(path: str) -> Iterator[bytes]:
    """A response message for each kind that the method has."""
    response = METHODS[path].response_type
    choices = [field.name for field in response.DESCRIPTOR.oneofs[0].fields] if response.DESCRIPTOR.oneofs else []
    if response.DESCRIPTOR.name not in ("StreamResponse", "SendMessageResponse"):
        yield filled(response()).SerializeToString()
        return
    for name in choices if METHODS[path].streams else choices[:1]:
        message = response()
        filled(getattr(message, name))
        yield message.SerializeToString()


def problem() -> Status:
    """The details of an error, some with tool calls."""
    status = Status(code=5, message="not found")
    details: list[Message] = [
        ErrorInfo(reason="TASK_NOT_FOUND", domain="a2a-protocol.org", metadata={METADATA_KEY: "[]", "task": "t"}),
        BadRequest(field_violations=[BadRequest.FieldViolation(field="id", description="unknown")]),
        ParseDict({"metadata": {METADATA_KEY: []}, "kept": 1}, Struct()),
    ]
    for detail in details:
        status.details.add().Pack(detail)
    return status


class _Agent(grpc.GenericRpcHandler):
    """Answers every A2A method; with an error if the metadata asks for one."""

    def service(self, call: Any) -> Any:
        async def answer(_: Any, context: Any) -> None:
            await context.read()
            await context.send_initial_metadata(ECHO)
            if "x-fail" in dict(context.invocation_metadata()):
                await context.abort(grpc.StatusCode.NOT_FOUND, "no", (*ECHO, (DETAILS, problem().SerializeToString())))
            for message in answers(call.method):
                await context.write(message)
            context.set_trailing_metadata(ECHO)

        return grpc.stream_stream_rpc_method_handler(answer)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def channel(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[grpc.aio.Channel]:
    """To a proxy before that agent."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Agent(),))
    upstream = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with (
        running_proxy(upstream, tmp_path_factory.mktemp("leaks"), negotiate="always") as proxy,
        grpc.aio.insecure_channel(proxy.grpc_address) as channel,
    ):
        yield channel
    await server.stop(0)


async def received(channel: grpc.aio.Channel, path: str, *metadata: tuple[str, str]) -> tuple[list[bytes], list[Any]]:
    """The messages and the metadata, initial and trailing, that a client gets."""
    request = METHODS[path].request_type()
    call = channel.unary_stream(path)(request.SerializeToString(), metadata=metadata or None)
    messages = []
    try:
        while (message := await call.read()) is not grpc.aio.EOF:
            messages.append(message)
    except grpc.aio.AioRpcError:
        pass
    return messages, [*await call.initial_metadata(), *await call.trailing_metadata()]


@pytest.mark.parametrize("path", READS)
async def test_a_client_that_did_not_ask_gets_nothing_of_it(channel, path):
    messages, metadata = await received(channel, path)
    assert messages
    assert MARK not in b"".join(messages)
    assert metadata == [("x-a2a-extensions", "urn:other"), ("x-kept", "yes")] * 2
    for data in messages:
        assert b"words" in data


@pytest.mark.parametrize("path", READS)
async def test_a_client_that_asked_gets_all_of_it(channel, path):
    asks = [("a2a-extensions", URI), ("authorization", "Bearer other")]
    messages, metadata = await received(channel, path, *asks)
    assert messages == list(answers(path))
    assert metadata == [*ECHO, *ECHO]


@pytest.mark.parametrize("path", READS)
async def test_the_details_of_errors_hold_nothing_of_it_either(channel, path):
    _, metadata = await received(channel, path, ("x-fail", "1"), ("authorization", "Bearer third"))
    (encoded,) = [value for key, value in metadata if key == DETAILS]
    assert MARK not in encoded
    expected = problem()
    info = ErrorInfo(reason="TASK_NOT_FOUND", domain="a2a-protocol.org", metadata={"task": "t"})
    expected.details[0].Pack(info)
    del expected.details[2]
    assert Status.FromString(encoded) == expected


async def test_details_of_errors_are_whole_for_a_client_that_asked(channel):
    asks = [("a2a-extensions", URI), ("x-fail", "1"), ("authorization", "Bearer fourth")]
    _, metadata = await received(channel, READS[0], *asks)
    assert (DETAILS, problem().SerializeToString()) in metadata


async def test_details_that_cannot_be_read_are_left_out_if_they_name_it():
    name, other = DETAILS.encode(), (b"x", b"y")
    assert shown_error([(name, encoded_value(b"\xff" + URI.encode())), other]) == [other]
    assert shown_error([(name, encoded_value(b"\xff"))]) == [(name, encoded_value(b"\xff"))]
    assert shown_error([(name, b"no base64!")]) == [(name, b"no base64!")]
