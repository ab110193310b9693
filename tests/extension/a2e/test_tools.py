"""A2E tools from both sides: a host in this process or in one of its own, hosts that mean harm, and the messages."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture import ToolCall, ToolCallRecorder, ToolCallSource
from a2a_tool_capture.a2e import (
    InProcessTransport,
    ToolAPI,
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolParameter,
    ToolPlugin,
    client,
    host_process,
    plugin,
    transport,
)
from a2a_tool_capture.a2e.messages import (
    ErrorMessage,
    HostGoneError,
    HostRefusedError,
    Message,
    ProtocolError,
    ToolCallRequest,
    ToolCallResponse,
    ToolListRequest,
    ToolListResponse,
    decode,
    encode,
    object_of,
    plain,
)
from a2a_tool_capture.a2e.transport import StreamTransport, Transport, read_lines, serve
from a2a_tool_capture.json_limits import READ
from extension.a2e.host_program import Shop
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values

RECORDER = ToolCallRecorder()
PROGRAM = str(Path(__file__).with_name("host_program.py"))

Connect = Callable[[], AbstractAsyncContextManager[Transport]]


@asynccontextmanager
async def over_sockets() -> AsyncIterator[Transport]:
    """A host behind a socket pair, in this process."""
    agent_side, host_side = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=host_side)
    serving = asyncio.create_task(serve(Shop(), reader, writer))
    async with StreamTransport(*await asyncio.open_connection(sock=agent_side)) as connected:
        yield connected
    await serving
    writer.close()


CONNECTIONS: dict[str, Connect] = {
    "in process": lambda: nullcontext(InProcessTransport(Shop())),
    "over sockets": over_sockets,
    "another process": lambda: host_process(sys.executable, PROGRAM),
}


@pytest.fixture(params=CONNECTIONS)
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[ToolAPI]:
    async with CONNECTIONS[request.param]() as connected:
        yield ToolAPI(connected, recorder=RECORDER)


# ── tools ───────────────────────────────────────────────────────────────────────────────────────────────────


async def names(listing: Awaitable[Sequence[ToolDefinition]]) -> list[str]:
    return [tool.name for tool in await listing]


FOUND = ("search", "reserve", "refund")


@pytest.mark.statement(270, 272, 273, 274, 275, 300, 301, 304, 305, 306)
@pytest.mark.parametrize(
    ("options", "tools"),
    [
        # Deferred tools are left to the search, unless the request includes them or leaves them out.
        ({}, ["search", "reserve"]),
        ({"include_deferred": True}, ["search", "reserve", "refund"]),
        ({"query": "REFUND"}, ["refund"]),
        ({"query": "pays"}, ["refund"]),
        ({"query": "money"}, ["refund"]),
        ({"query": "nothing like that"}, []),
        ({"query": "refund", "include_deferred": False}, []),
        ({"tags": ["write"]}, ["reserve"]),
        ({"tags": ["READ", "catalog"]}, ["search"]),
        ({"tags": ["read", "write"]}, []),
        ({"query": "re", "tags": ["money"]}, ["refund"]),
        # A tool's kind is its toolkit, or the plug-in's name.
        ({"kind": "Stock"}, ["reserve"]),
        ({"kind": "shop"}, ["search"]),
        ({"kind": "nothing like that"}, []),
        ({"kind": "", "tags": ["write"]}, ["reserve"]),
        ({"query": "re", "kind": "stock"}, ["reserve"]),
    ],
)
async def test_lists_and_searches(shop: ToolAPI, options: dict[str, Any], tools: list[str]) -> None:
    assert [name for name in await names(shop.list(**options)) if name in FOUND] == tools


@pytest.mark.statement(296)
async def test_the_search_may_be_overridden() -> None:
    class Last(Shop):
        def search_tools(self, query: str, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
            return tools[-1:]

    assert await names(ToolAPI(InProcessTransport(Last())).list(query="x")) == ["die"]


async def test_the_plain_list_is_asked_for_once(shop: ToolAPI) -> None:
    assert await shop.list() is await shop.list()
    assert await shop.list(tags=["write"]) is not await shop.list(tags=["write"])


@pytest.mark.parametrize(
    ("tool", "code", "error"),
    [
        pytest.param("reserve", ToolErrorCode.TOOL_ERROR, "sold out", marks=pytest.mark.statement(284, 291)),
        pytest.param("refund", ToolErrorCode.TOOL_DENIED, "refunds are not allowed", marks=pytest.mark.statement(290)),
        pytest.param(
            "teleport", ToolErrorCode.UNKNOWN_TOOL, "there is no tool 'teleport'", marks=pytest.mark.statement(289)
        ),
        ("junk", ToolErrorCode.TOOL_ERROR, "Object of type object is not JSON serializable"),
        ("search", ToolErrorCode.TOOL_ERROR, "'q'"),  # the tool's own KeyError
    ],
)
@pytest.mark.statement(302)
async def test_failures_are_results(shop: ToolAPI, tool: str, code: ToolErrorCode, error: str) -> None:
    result = await shop.call(tool)
    assert (result.success, result.error_code, result.error, result.tool_name) == (False, code, error, tool)


@pytest.mark.statement(281, 282, 283, 285, 307, 308)
async def test_results(shop: ToolAPI) -> None:
    found = await shop.call("search", {"q": "kettle"})
    assert (found.success, found.data, found.error) == (True, {"found": ["kettle"]}, None)
    assert (await shop.call("value")).data == {"value": "just a text"}
    whole = await shop.call("whole")
    assert (whole.summary, whole.truncated, whole.exit_code, whole.duration_ms) == ("as I said", True, 3, 7)


async def test_calls_run_at_the_same_time(shop: ToolAPI) -> None:
    """Neither of the two can end before the other has begun; others are answered meanwhile."""
    first = asyncio.create_task(shop.call("meet"))
    assert (await shop.call("search", {"q": "x"})).success
    assert not first.done()
    second = await shop.call("meet")
    assert (await first).data == second.data == {"met": True}


@pytest.mark.statement(279, 286, 288, 298)
@pytest.mark.parametrize("streaming", [True, False])
async def test_events_come_in_order_before_the_result_and_are_in_it(shop: ToolAPI, streaming: bool) -> None:
    heard: list[ToolEvent] = []
    result = await shop.call("report", {"events": 20}, streaming=streaming, on_event=heard.append)
    assert [event.seq for event in result.events] == list(range(1, 22))
    assert [event.data.get("pct") for event in result.events] == [*range(20), None]
    assert {event.req_id for event in result.events} == {result.events[0].req_id}
    assert heard == (list(result.events) if streaming else [])


async def test_a_listener_that_fails_does_not_harm_the_call(shop: ToolAPI, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: ToolEvent) -> None:
        raise RuntimeError("I cannot listen")

    assert (await shop.call("report", {"events": 1}, streaming=True, on_event=fail)).success
    assert "on_event failed" in caplog.text


# ── the host's side ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(297, 298)
async def test_events_are_told_to_the_callback_of_the_plug_in_too() -> None:
    shop = Shop()
    told: list[tuple[int, str]] = []
    shop.set_event_callback(lambda event: told.append((event.seq, threading.current_thread().name)))
    await shop.handle(ToolCallRequest(tool_name="report", arguments={"events": 1}))
    assert [number for number, _ in told] == [1, 2]
    assert told[0][1] != told[1][1] == threading.current_thread().name
    shop.set_event_callback(None)
    await shop.handle(ToolCallRequest(tool_name="report", arguments={"events": 1}))
    assert len(told) == 2


async def test_an_event_that_nobody_can_receive_is_an_error() -> None:
    """As in a thread without the context of its call, which is not known to be of that call."""

    class Threaded(Shop):
        async def execute(self, tool_name: str, arguments: dict[str, Any]) -> Any:
            with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="copy_context"):
                pool.submit(self.emit, "log", {}).result()
            await asyncio.to_thread(self.emit, "log", {"level": "info"})
            return {}

    result = await ToolAPI(InProcessTransport(Threaded())).call("report")
    assert (result.success, [event.data for event in result.events]) == (True, [{"level": "info"}])


async def test_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "MAX_EVENTS", 3)
    result = await ToolAPI(InProcessTransport(Shop())).call("report", {"events": 10})
    assert [event.seq for event in result.events] == [1, 2, 3]


@pytest.mark.statement(280)
@pytest.mark.parametrize(("most", "asked"), [(0.05, 1e9), (3600, 0.05)])
async def test_no_call_takes_longer_than_the_request_and_the_host_allow(
    most: float, asked: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "MAX_TIMEOUT_S", most)
    response = await Shop().handle(ToolCallRequest(tool_name="hang", timeout=asked))
    assert isinstance(response, ToolCallResponse)
    assert response.data.error == "no result within 0.05 s"


class Broken(ToolPlugin):
    def list_tools(self) -> list[ToolDefinition]:
        raise RuntimeError("the catalog is on fire")

    async def execute(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        raise AssertionError("never called")


@pytest.mark.statement(292)
async def test_a_plug_in_that_cannot_list_says_so() -> None:
    assert Broken.name == "base_tool"
    tools = ToolAPI(InProcessTransport(Broken()))
    with pytest.raises(HostRefusedError, match="runtime_error: the catalog is on fire"):
        await tools.list()
    result = await tools.call("search")
    assert (result.error_code, result.error) == (ToolErrorCode.TOOL_ERROR, "the catalog is on fire")


async def speak(*lines: bytes) -> list[Any]:
    """What the host answers to raw lines, once the agent has closed its side."""
    agent_side, host_side = socket.socketpair()
    host_reader, host_writer = await asyncio.open_connection(sock=host_side)
    reader, writer = await asyncio.open_connection(sock=agent_side)
    writer.write(b"".join(lines))
    writer.write_eof()
    await serve(Shop(), host_reader, host_writer)
    host_writer.close()
    answers = [decode(line) for line in (await reader.read()).splitlines()]
    writer.close()
    return answers


async def test_a_host_answers_bad_lines_with_errors_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_LINE_BYTES", 1000)
    good = ToolCallRequest(tool_name="search", arguments={"q": "x"})
    event = ToolEvent(kind="log")
    answers = await speak(
        encode(event),
        b"garbage\n",
        b"\n",
        b'{"type": "tool/call/req", "id": "7"}\n',
        b"x" * 5000 + b"\n",
        b"\xff\n",
        encode(good),
    )
    errors = [(answer.code, answer.req_id) for answer in answers if isinstance(answer, ErrorMessage)]
    assert sorted(errors) == [
        ("invalid_message", ""),
        ("invalid_message", event.id),
        ("parse_error", ""),
        ("parse_error", ""),
        ("schema_violation", "7"),
    ]
    (result,) = [answer for answer in answers if isinstance(answer, ToolCallResponse)]
    assert (result.req_id, result.data.success) == (good.id, True)


async def test_an_answer_too_long_for_a_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_LINE_BYTES", 900)
    request = ToolCallRequest(tool_name="report", arguments={"events": 20})
    (answer,) = await speak(encode(request))
    assert (answer.req_id, answer.code) == (request.id, "tool_error")
    assert "the maximum is 900" in answer.message


async def test_more_calls_than_run_at_once_wait_their_turn() -> None:
    requests = [ToolCallRequest(tool_name="search", arguments={"q": str(number)}) for number in range(300)]
    answers = await speak(*map(encode, requests))
    assert {answer.req_id for answer in answers} == {request.id for request in requests}


# ── hosts that mean harm ────────────────────────────────────────────────────────────────────────────────────

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def host_that(acts: Script) -> AsyncIterator[ToolAPI]:
    """A host that does what it likes with its end of a socket pair."""
    agent_side, host_side = socket.socketpair()
    host = await asyncio.open_connection(sock=host_side)
    acting = asyncio.ensure_future(acts(*host))
    async with StreamTransport(*await asyncio.open_connection(sock=agent_side)) as connected:
        yield ToolAPI(connected)
    acting.cancel()
    await asyncio.gather(acting, return_exceptions=True)
    host[1].close()


def answers(write: Callable[[Any], bytes | None]) -> Script:
    """What a host does that answers one request with those bytes, or hangs up at None."""

    async def acts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        written = write(decode(await reader.readline()))
        if written is None:
            writer.close()
        else:
            writer.write(written)

    return acts


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


async def test_rubbish_before_an_answer_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_LINE_BYTES", 2_000)

    def rubbish(request: Any) -> bytes:
        data = {"success": True, "data": {"ok": 1}}
        answer = {"type": "tool/call/resp", "id": "a", "req_id": request.id, "data": data}
        unknown = {**answer, "req_id": "f" * 32, "data": {"success": True}}
        event = {"type": "tool/event", "req_id": request.id}
        lines = [b"", b"\xff", b"[]", b"null", encode(ToolListRequest())[:-1], *[dumped(unknown)] * 50]
        lines += [encode(ToolEvent(kind="log"))[:-1], dumped(event), b"x" * 3_000, *[dumped(answer)] * 2, b""]
        return b"\n".join(lines)

    async with host_that(answers(rubbish)) as tools:
        assert (await tools.call("anything")).data == {"ok": 1}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"type": "tool/call/resp", "data": {"success": "yes"}}, "the host's response is invalid: .*success"),
        ({"type": "tool/list/resp", "tools": []}, "the host responded to a call with tool/list/resp"),
    ],
)
async def test_an_answer_that_makes_no_sense_fails_at_once(answer: dict[str, Any], error: str) -> None:
    nonsense = answers(lambda request: dumped({"id": "a", "req_id": request.id, **answer}) + b"\n")
    async with host_that(nonsense) as tools:
        result = await tools.call("anything")
    assert result.error_code is ToolErrorCode.TOOL_ERROR
    assert re.search(error, result.error or "")


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def test_a_host_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_GRACE_S", 0.05)
    monkeypatch.setattr(client, "DEFAULT_TIMEOUT_S", 0.05)
    async with host_that(silence) as tools:
        result = await tools.call("anything", timeout=0.05)
        assert (result.error_code, result.error) == (ToolErrorCode.TOOL_ERROR, "the host did not respond within 0.05 s")
        with pytest.raises(HostGoneError, match="did not list its tools"):
            await tools.list()


async def test_a_host_that_hangs_up() -> None:
    async with host_that(answers(lambda _: None)) as tools:
        for _ in range(2):
            with pytest.raises(HostGoneError, match="the host closed the connection"):
                await tools.call("anything")


async def test_what_a_tool_prints_does_not_get_among_the_messages(caplog: pytest.LogCaptureFixture) -> None:
    async with host_process(sys.executable, PROGRAM) as connected:
        assert (await ToolAPI(connected).call("print")).success
    assert caplog.records == []


async def test_a_host_process_that_will_not_end_is_killed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transport, "STOP_GRACE_S", 0.2)
    async with host_process(sys.executable, "-c", "import time; time.sleep(60)"):
        pass
    assert "killing it" in caplog.text


async def test_a_request_too_long_for_a_line_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_LINE_BYTES", 500)
    async with host_that(silence) as tools:
        with pytest.raises(ValueError, match="the maximum is 500"):
            await tools.call("anything", {"q": "x" * 600})


# ── capture ─────────────────────────────────────────────────────────────────────────────────────────────────


async def captured(shop: ToolAPI, *calls: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    with RECORDER.request() as recording:
        await asyncio.gather(*(shop.call(name, arguments) for name, arguments in calls))
    assert recording is not None
    return recording.tool_calls


@pytest.mark.statement(312)
async def test_every_call_is_recorded(shop: ToolAPI) -> None:
    calls = await captured(
        shop, ("search", {"q": "kettle"}), ("reserve", {"q": "kettle"}), ("refund", {}), ("nope", {}), ("whole", {})
    )
    assert [(call.name, call.arguments, call.result, call.error) for call in calls] == [
        ("search", {"q": "kettle"}, '{"found": ["kettle"]}', None),
        ("reserve", {"q": "kettle"}, None, "tool_error: sold out"),
        ("refund", {}, None, "tool_denied: refunds are not allowed"),
        ("nope", {}, None, "unknown_tool: there is no tool 'nope'"),
        ("whole", {}, "as I said", None),
    ]
    assert {call.source for call in calls} == {ToolCallSource.A2E}
    assert len({call.id for call in calls}) == 5
    assert all(call.started_at and call.ended_at and call.started_at <= call.ended_at for call in calls)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def line(kind: str, /, **data: Any) -> bytes:
    return json.dumps({"type": kind, "id": "1", **data}).encode()


PATH = {"name": "path", "type": "string", "description": "Where", "required": True, "enum": ["/a", "/b"]}
DEFINITION = {
    "name": "read_file",
    "description": "Reads a file",
    "input_parameters": [
        {"name": "file", "type": "object", "description": "Which", "required": False, "properties": [PATH]}
    ],
    "output_parameters": [{"name": "content", "type": "string", "description": "", "required": True}],
    "streaming": True,
    "idempotent": True,
    "tags": ["fs"],
    "version": "2.0.0",
    "toolkit": "files",
    "defer_loading": True,
}
EVENT = {"kind": "progress", "data": {"pct": 50, "message": "half"}, "req_id": "7", "seq": 1}
RESULT = {
    "success": False,
    "tool_name": "read_file",
    "data": {"content": "of the file"},
    "summary": "read\none file: ü",
    "truncated": True,
    "exit_code": 3,
    "error": "disk full",
    "error_code": "tool_error",
    "duration_ms": 12,
    "events": [{"type": "tool/event", "id": "9", "ts": 1.5, "version": "1.0", **EVENT}],
}


@pytest.mark.parametrize(
    ("kind", "model", "fields"),
    [
        pytest.param(
            "tool/list/req",
            ToolListRequest,
            {"filter_kind": "files", "filter_tags": ["fs"], "query": "read", "include_deferred": True},
            marks=pytest.mark.statement(261),
        ),
        pytest.param(
            "tool/list/resp",
            ToolListResponse,
            {"req_id": "7", "tools": [DEFINITION]},
            marks=pytest.mark.statement(262, 266, 267, 268, 269, 270, 271),
        ),
        pytest.param(
            "tool/call/req",
            ToolCallRequest,
            {
                "tool_name": "read_file",
                "arguments": {"path": "/a"},
                "session_id": "s-1",
                "correlation_id": "turn-1",
                "streaming": True,
                "timeout": 5.0,
            },
            marks=pytest.mark.statement(263, 276, 277, 278, 279, 280),
        ),
        pytest.param(
            "tool/call/resp",
            ToolCallResponse,
            {"req_id": "7", "data": RESULT},
            marks=pytest.mark.statement(264, 281, 282, 283, 284, 285, 286),
        ),
        pytest.param("tool/event", ToolEvent, EVENT, marks=pytest.mark.statement(265)),
        ("error", ErrorMessage, {"code": "tool_error", "message": "full", "req_id": "7", "retryable": True}),
    ],
)
def test_each_message_has_the_fields_of_the_documentation(
    kind: str, model: type[Message], fields: dict[str, Any]
) -> None:
    """What is null or not known is as if it were not there."""
    data = {"type": kind, "id": "1", "ts": 1.5, "version": "1.0", **fields}
    message = decode(json.dumps(data | {"toolkit": None, "new_in_2027": [1]}).encode())
    assert type(message) is model
    assert plain(message) == data
    line = encode(message)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_what_a_definition_does_not_say_is_not_so() -> None:
    definition = object_of(ToolDefinition, {"name": "read_file"})
    said = definition.streaming, definition.idempotent, definition.defer_loading, definition.toolkit
    assert said == (False, False, False, None)


@pytest.mark.statement(271)
def test_properties_may_be_a_list_or_a_map() -> None:
    inner = {"name": "city", "type": "string", "description": "where", "required": True}
    as_list = {"name": "to", "type": "object", "properties": [inner]}
    as_map = {"name": "to", "type": "object", "properties": {"city": {**inner, "name": "city"}}}
    without_names = {
        "name": "to",
        "type": "object",
        "properties": {"city": {k: v for k, v in inner.items() if k != "name"}},
    }
    read = [object_of(ToolParameter, data) for data in (as_list, as_map, without_names)]
    assert read[0] == read[1] == read[2]
    assert read[0].properties == (ToolParameter(name="city", description="where", required=True),)


@pytest.mark.parametrize("version", [{"version": "1.7"}, {"a2e": "1.0"}, {}])
@pytest.mark.parametrize("spelling", ["TOOL_DENIED", "tool_denied", "Tool_Denied"])
def test_error_codes_in_any_case_and_every_minor_version_of_1(spelling: str, version: dict[str, str]) -> None:
    message = decode(line("tool/call/resp", req_id="2", data={"success": False, "error_code": spelling}, **version))
    assert isinstance(message, ToolCallResponse)
    assert message.data.error_code is ToolErrorCode.TOOL_DENIED


@pytest.mark.parametrize(
    ("bad", "code", "says"),
    [
        (b"", "parse_error", "not JSON"),
        (b"\xff\xfe", "parse_error", "not JSON"),
        (b"{", "parse_error", "not JSON"),
        (b'{"type": NaN}', "parse_error", "NaN is not a JSON number"),
        (b"[" * 100_000, "parse_error", "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "parse_error", "not JSON"),
        (b"[]", "invalid_message", "unknown type None"),
        (line("tool/gossip"), "invalid_message", "unknown type 'tool/gossip'"),
        (b'{"type": ["error"], "id": "1"}', "invalid_message", "unknown type"),
        (line("tool/list/req", version="2.0"), "version_mismatch", "version '2.0'"),
        (line("tool/list/req", version=1), "version_mismatch", "version 1"),
        (line("tool/call/req"), "schema_violation", "ToolCallRequest.tool_name is missing"),
        (line("tool/call/req", tool_name=""), "schema_violation", "expected a string that is not empty"),
        (
            line("tool/call/req", tool_name="a", arguments=[]),
            "schema_violation",
            "arguments: expected an object, got a list",
        ),
        (line("tool/call/req", tool_name="a", timeout="30"), "schema_violation", "timeout: expected a finite number"),
        (
            line("tool/call/req", tool_name="a", timeout=10**400),
            "schema_violation",
            "timeout: expected a finite number",
        ),
        (line("tool/call/req", tool_name="a", streaming=1), "schema_violation", "streaming: expected true or false"),
        (line("tool/call/resp", req_id="2", data={}), "schema_violation", "data.success is missing"),
        (line("tool/list/resp", req_id="2", tools=[{}]), "schema_violation", r"tools\[0\].name is missing"),
        (line("tool/event", kind="log", seq=1.5), "schema_violation", "seq: expected an integer"),
    ],
)
def test_what_cannot_be_read_is_named(bad: bytes, code: str, says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as raised:
        decode(bad)
    assert raised.value.code == code


def test_parameters_do_not_nest_without_end() -> None:
    nested: dict[str, Any] = {"name": "p"}
    for _ in range(READ + 1):
        nested = {"name": "p", "properties": [nested]}
    object_of(ToolParameter, nested["properties"][0])
    with pytest.raises(ProtocolError, match="parameters nest deeper than"):
        object_of(ToolParameter, {"name": "p", "properties": [nested]})


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_what_is_no_json_is_not_sent(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|not serializable|Object of type"):
        encode(ToolCallRequest(tool_name="a", arguments={"x": value}))


KEYS = ["id", "ts", "version", "req_id", "tool_name", "arguments", "data", "tools", "kind", "code", "success", "events"]
TYPES = ["tool/list/req", "tool/list/resp", "tool/call/req", "tool/call/resp", "tool/event", "error"]


@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=6))
def test_junk_raises_nothing_else(kind: str, data: dict[str, Any]) -> None:
    try:
        decode(json.dumps({**data, "type": kind}).encode())
    except ProtocolError:
        pass


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=12).filter(lambda text: b"\n" not in text), max_size=6), st.data())
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(text + b"\n" for text in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    wanted = [text if len(text) <= 8 else None for text in lines if text.strip() or len(text) > 8]
    assert asyncio.run(lines_in(pieces, 8)) == wanted


def test_a_line_without_end_takes_no_memory() -> None:
    pieces = [b"x" * 50_000] * 1_000
    tracemalloc.start()
    try:
        assert asyncio.run(lines_in([*pieces, b"\nnext\n"], 10)) == [None, b"next"]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


class Pieces(asyncio.StreamReader):
    """A stream whose reads return these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self.pieces = iter([piece for piece in pieces if piece])

    async def read(self, n: int = -1) -> bytes:
        return next(self.pieces, b"")


async def lines_in(pieces: list[bytes], max_bytes: int) -> list[bytes | None]:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(transport, "MAX_LINE_BYTES", max_bytes)
        return [line async for line in read_lines(Pieces(pieces))]
