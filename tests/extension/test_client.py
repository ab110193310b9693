"""CaptureClient against real a2a-sdk servers over loopback, on lines that break, stall and refuse."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx
import pytest
from a2a.types import AgentCard
from a2a_eval_proxy.features.demo.agent import agent_card, request_handler
from a2a_eval_proxy.features.demo.tools import Shop
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.net.sdk_server import sdk_routes
from a2a_tool_capture import METADATA_KEY, URI, CaptureClient, TaskMerger
from a2a_tool_capture import client as client_module
from a2a_tool_capture.approvals import Answer
from a2a_tool_capture.errors import (
    AgentError,
    AgentUnreachableError,
    CaptureError,
    ConfigurationError,
    TurnTimeoutError,
)
from a2a_tool_capture.models import CapturedTurn
from agents import scenario_agent
from agents.control import Control
from agents.scenarios import BOTH
from starlette.applications import Starlette
from starlette.requests import Request
from support.patience import PATIENCE_S

COMPLETED = "TASK_STATE_COMPLETED"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"

App = Callable[[Any, Any, Any], Any]


class Seen(NamedTuple):
    operation: str
    """JSON-RPC method, or the path of an HTTP+JSON request."""
    headers: dict[str, str]
    body: bytes


class LineCutError(Exception):
    """Raised inside the server so that it drops the connection."""


@dataclass
class Line:
    """What lies between the client and the agent: notes every request, and breaks where the test says so."""

    cut_before: str | None = None
    """The first response chunk that holds this text is not sent; the connection is dropped instead."""
    refused: frozenset[str] = frozenset()
    """Operations answered with HTTP 404."""
    dead_after_cut: bool = False
    """Whether every request after the cut is dropped, too."""
    url: str = ""
    app: App = field(init=False)
    requests: list[Seen] = field(default_factory=list)
    answering: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    """Set once the agent's answer to an operation begins to flow."""
    _cut: bool = False

    @property
    def operations(self) -> list[str]:
        return [request.operation for request in self.requests]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"].startswith("/_control/"):
            await self.app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        method = json.loads(body).get("method") if body else None
        operation = method or scope["path"]
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append(Seen(operation, headers, body))
        if self._cut and self.dead_after_cut:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise LineCutError
        if operation in self.refused:
            await answer(send, b"text/plain", b"no such thing", status=404)
            return
        handed_on = False

        async def replay() -> Any:
            nonlocal handed_on
            if handed_on:
                return await receive()
            handed_on = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def watched(message: Any) -> None:
            content = message.get("body", b"")
            if self.cut_before and not self._cut and self.cut_before.encode() in content:
                self._cut = True
                raise LineCutError
            await send(message)
            if content:
                self.answering[operation].set()

        await self.app(scope, replay, watched)


@asynccontextmanager
async def on_line(make_app: Callable[[str], App], **faults: Any) -> AsyncIterator[Line]:
    line = Line(**faults)
    server = HttpServer(line, "127.0.0.1:0", shutdown_timeout_s=1)
    line.url = server.url
    line.app = make_app(server.url)
    await server.start()
    try:
        yield line
    finally:
        await server.stop()


def scenarios(url: str) -> App:
    return scenario_agent.build_app(url, scenario_agent.AgentOptions(), Control())


async def open_gate(line: Line, name: str) -> None:
    async with httpx.AsyncClient() as http:
        await http.post(f"{line.url}/_control/open", params={"gate": name})


@asynccontextmanager
async def shop_agent(change: Callable[[AgentCard], None] = lambda _: None) -> AsyncIterator[Line]:
    """The demo agent, with a changed card."""

    def make_app(url: str) -> App:
        card = agent_card(url)
        handler = request_handler(card, Shop())
        change(card)
        return Starlette(routes=sdk_routes(handler, card))

    async with on_line(make_app) as line:
        yield line


def only(binding: str, version: str) -> Callable[[AgentCard], None]:
    def change(card: AgentCard) -> None:
        kept = [
            interface
            for interface in card.supported_interfaces
            if (interface.protocol_binding, interface.protocol_version) == (binding, version)
        ]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(kept)

    return change


def names(turn: CapturedTurn | None) -> list[str]:
    assert turn is not None
    return [call.name for call in turn.tool_calls]


# ── every way to talk ───────────────────────────────────────────────────────────────────────────────────────

OPERATIONS = {
    ("JSONRPC", "1.0"): ("SendMessage", "SendStreamingMessage"),
    ("JSONRPC", "0.3"): ("message/send", "message/stream"),
    ("HTTP+JSON", "1.0"): ("/rest/message:send", "/rest/message:stream"),
    ("HTTP+JSON", "0.3"): ("/rest/v1/message:send", "/rest/v1/message:stream"),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("binding", "version"), OPERATIONS)
async def test_captures_a_turn_over_every_interface(binding: str, version: str, streaming: bool) -> None:
    async with (
        shop_agent(only(binding, version)) as line,
        CaptureClient(line.url, streaming=streaming) as client,
    ):
        turn = await client.send("When will order ORD-1001 arrive?", metadata={"origin": "test"})

    assert turn.text == "Nordpost has your parcel. Order ORD-1001 arrives on 2026-11-04."
    assert [(call.name, call.arguments) for call in turn.tool_calls] == [
        ("lookup_order", {"order_id": "ORD-1001"}),
        ("estimate_delivery", {"tracking_number": "TRK-77120"}),
    ]
    assert (turn.state, turn.interrupted, turn.findings, turn.declared) == (COMPLETED, False, (), True)
    assert (turn.binding, turn.protocol_version) == (binding, version)
    assert "" not in (turn.task_id, turn.context_id)
    assert turn.first_event_at is not None
    assert turn.started_at <= turn.first_event_at <= turn.ended_at
    send = line.requests[-1]
    assert send.operation == OPERATIONS[binding, version][streaming]
    assert b'"origin"' in send.body
    headers = [send.headers.get(name) for name in ("a2a-extensions", "x-a2a-extensions")]
    assert headers == [URI, URI if version == "0.3" else None]


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_continued_task_gives_each_turn_its_own_calls(streaming: bool) -> None:
    async with shop_agent() as line, CaptureClient(line.url, streaming=streaming) as client:
        conversation = client.conversation()
        asked = await conversation.send("I would like my money back for order ORD-1005")
        answered = await conversation.send("Yes, please")
        later = await conversation.send("And when will it arrive?")

    assert asked.interrupted
    assert asked.text.startswith("Order ORD-1005 was 64.00 EUR. Shall I refund all ")
    assert names(asked) == ["lookup_order"]
    assert answered.task_id == asked.task_id
    assert answered.text == "Done. 64.00 EUR are on their way back to you, reference REF-1005."
    assert names(answered) == ["issue_refund"]
    assert later.task_id != asked.task_id
    assert names(later) == ["lookup_order", "estimate_delivery"]
    assert {asked.context_id, answered.context_id, later.context_id} == {conversation.context_id}


async def test_an_answer_from_another_client_gives_its_turn_its_own_calls() -> None:
    async with shop_agent() as line:
        async with CaptureClient(line.url) as client:
            asked = await client.send("I would like my money back for order ORD-1005")
        async with CaptureClient(line.url) as client:
            answer = Answer("choose", "Yes, please")
            answered = await client.send(answer, context_id=asked.context_id, task_id=asked.task_id)
    assert (answered.user_text, names(asked), names(answered)) == ("Yes, please", ["lookup_order"], ["issue_refund"])


@pytest.mark.parametrize("goes_on", [False, True], ids=["with the state it waited in", "with a last snapshot"])
async def test_a_stream_may_go_on_after_what_looks_like_its_end(goes_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on once the client has read that. A task that is continued may begin so: all of it is read."""
    monkeypatch.setattr(client_module, "CLOSING_GRACE_S", PATIENCE_S if goes_on else 0)
    was_read, feed = asyncio.Event(), TaskMerger.feed

    def noted(merger: TaskMerger, *given: Any) -> None:
        feed(merger, *given)
        was_read.set()

    monkeypatch.setattr(TaskMerger, "feed", noted)
    waiting = {"task": {"id": "t", "contextId": "c", "status": {"state": INPUT_REQUIRED}}}
    events = [DONE, ended(reported({}))] if goes_on else [waiting, DONE]
    turn = await answer_of(agent_that_writes(events, until=lambda _: was_read.wait()), task_id="t", context_id="c")
    assert (turn.state, names(turn)) == (COMPLETED, ["pay"] * goes_on)


# ── turns that take more than one request ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("refused", [frozenset[str](), frozenset({"SubscribeToTask"})], ids=["subscription", "polling"])
async def test_a_dropped_stream_goes_on(refused: frozenset[str]) -> None:
    """By polling where the agent knows no subscription."""
    async with on_line(scenarios, cut_before="before ", refused=refused) as line, CaptureClient(line.url) as client:
        turn = asyncio.create_task(client.send("slow gate"))
        await line.answering["GetTask" if refused else "SubscribeToTask"].wait()
        await open_gate(line, "gate")
        done = await turn
    assert line.operations[1:3] == ["SendStreamingMessage", "GetTask"]
    assert [line.operations.count(name) for name in ("SendStreamingMessage", "SubscribeToTask")] == [1, 1]
    assert all(request.headers["a2a-extensions"] == URI for request in line.requests[1:])
    assert (done.state, done.text) == (COMPLETED, "before after")
    assert names(done) == [call["name"] for call in BOTH]


async def test_a_stream_dropped_before_its_first_event_is_not_sent_again() -> None:
    async with on_line(scenarios, cut_before="data:") as line, CaptureClient(line.url) as client:
        with pytest.raises(AgentUnreachableError) as caught:
            await client.send("chunks please")
    assert line.operations[1:] == ["SendStreamingMessage"]
    assert caught.value.turn is not None
    assert caught.value.turn.first_event_at is None


async def test_an_agent_that_does_not_come_back_is_given_up_with_what_was_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "FIRST_POLL_S", 0.001)
    faults = {"cut_before": "end.", "dead_after_cut": True}
    async with on_line(scenarios, **faults) as line, CaptureClient(line.url) as client:
        with pytest.raises(AgentUnreachableError) as caught:
            await client.send("chunks please")
    assert line.operations[2:] == ["GetTask"] * client_module.MAX_LOST_IN_A_ROW
    assert names(caught.value.turn) == [call["name"] for call in BOTH]


@pytest.mark.parametrize(
    ("breaks", "error", "raised"),
    [
        (True, {"code": -32001, "message": "no such task"}, AgentUnreachableError),
        (False, {"code": -32001, "message": "no such task"}, AgentError),
        (False, "the task is gone", AgentError),
    ],
)
async def test_an_agent_that_forgets_its_task_when_the_connection_breaks_has_restarted(
    breaks: bool, error: Any, raised: type[CaptureError]
) -> None:
    forgetting = agent_that_writes([WORKING], task={"jsonrpc": "2.0", "id": 1, "error": error}, breaks=breaks)
    with pytest.raises(raised, match="task") as failed:
        await answer_of(forgetting)
    assert type(failed.value) is raised
    assert failed.value.turn is not None


async def test_a_turn_has_an_end() -> None:
    for timeout_s in (0.5, 5, 50):
        async with on_line(scenarios) as line, CaptureClient(line.url, timeout_s=timeout_s) as client:
            with pytest.raises(TurnTimeoutError, match=rf"did not finish within {timeout_s} s") as caught:
                await client.send("slow gate")
        assert caught.value.turn is not None
        if caught.value.turn.text:  # on a busy machine the agent needs longer to get so far
            break
    assert caught.value.turn.text == "before "
    assert names(caught.value.turn) == [call["name"] for call in BOTH]


# ── streams that end oddly ──────────────────────────────────────────────────────────────────────────────────


IDS = {"taskId": "t", "contextId": "c"}
DONE = {"statusUpdate": {**IDS, "status": {"state": COMPLETED}}}
WORKING = {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}}


def agent_that_writes(
    events: list[Any],
    *,
    binding: str = "JSONRPC",
    version: str = "1.0",
    streaming: bool = True,
    task: Any = None,
    until: Callable[[Any], Awaitable[Any]] | None = None,
    breaks: bool = False,
) -> Callable[[str], App]:
    """An agent that writes its JSON itself: a stream of `events`, or the first of them where it does not stream.
    GetTask is answered with `task`, if that is given. Before the last event the stream waits for `until`, which is
    called with what receives from the client; in the end it breaks, if it should.
    """
    results = [{"jsonrpc": "2.0", "id": 1, "result": event} if binding == "JSONRPC" else event for event in events]
    texts = [json.dumps(result, ensure_ascii=False) for result in results]

    def make_app(url: str) -> App:
        interface = {"url": url, "protocolBinding": binding, "protocolVersion": version}
        card = {"name": "raw", "supportedInterfaces": [interface], "capabilities": {"streaming": streaming}}

        async def app(scope: Any, receive: Any, send: Any) -> None:
            body = await Request(scope, receive).body()
            if scope["path"].startswith("/.well-known/"):
                await answer(send, b"application/json", json.dumps(card).encode())
            elif scope["method"] == "GET" or (task and b'"GetTask"' in body):
                await answer(send, b"application/json", json.dumps(task).encode())
            elif not streaming:
                await answer(send, b"application/json", texts[0].encode())
            else:
                await answer(send, b"text/event-stream", b"", more=True)
                await write(send, texts[:-1])
                if until:
                    await until(receive)
                await write(send, texts[-1:])
                if breaks:
                    raise LineCutError
                await send({"type": "http.response.body", "body": b""})

        return app

    return make_app


async def write(send: Any, texts: list[str]) -> None:
    """Events that arrive in pieces, and several in one."""
    body = "".join(f": comment\r\ndata: {text}\r\n\r\n" for text in texts).encode()
    for position in range(0, len(body), 37):
        await send({"type": "http.response.body", "body": body[position : position + 37], "more_body": True})


async def answer_of(make_app: Callable[[str], App], dialects: tuple[str, ...] = (), **ids: str) -> CapturedTurn:
    async with on_line(make_app) as line, CaptureClient(line.url, dialects=dialects) as client:
        return await client.send("hello", **ids)


async def answer(send: Any, content_type: bytes, body: bytes, *, status: int = 200, more: bool = False) -> None:
    headers = [(b"content-type", content_type)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def test_a_stream_left_open_after_the_end_does_not_hold_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CLOSING_GRACE_S", 0.05)
    turn = await answer_of(agent_that_writes([DONE, DONE], until=lambda receive: receive()))
    assert turn.state == COMPLETED


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([], "without a Message or a Task"),
        ([{"task": {"id": 7}}], "http://127.0.0.1:"),
        ([WORKING], "no task"),
    ],
    ids=["nothing", "junk", "junk in place of the task"],
)
async def test_a_stream_that_ends_without_an_answer_is_an_error(events: list[Any], error: str) -> None:
    with pytest.raises(AgentError, match=error):
        await answer_of(agent_that_writes(events))


def ended(*artifacts: dict[str, Any]) -> dict[str, Any]:
    return {"task": {"id": "t", "status": {"state": COMPLETED}, "artifacts": list(artifacts)}}


def reported(arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"id": "1", "name": "pay", "arguments": arguments}
    return {"artifactId": "a", "parts": [{"text": "paid"}], "extensions": [URI], "metadata": {METADATA_KEY: [call]}}


PART = {"data": {"id": "1", "name": "pay", "args": {}}, "metadata": {"adk_type": "function_call"}}
IN_A_PART = ended({"artifactId": "a", "parts": [PART]})


@pytest.mark.parametrize(
    ("events", "dialects", "called", "findings"),
    [
        pytest.param(
            [
                {"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_WORKING", "timestamp": "just now"}}},
                {"artifactUpdate": {**IDS, "artifact": 7}},
                {"other": 1},
                [],
                None,
                {"artifactUpdate": {**IDS, "append": "no", "artifact": reported({"n": 10**400})}},
                DONE,
            ],
            (),
            ["pay"],
            [("malformed_event", "warning"), ("unknown_event", "info"), ("malformed_response", "warning")],
            id="events that protobuf refuses",
        ),
        pytest.param(
            [{"task": {"id": "t", "status": {}}}, [1], ended(reported({}))],
            (),
            ["pay"],
            [("malformed_response", "info")],
            id="a snapshot, which may have what was not read",
        ),
        pytest.param([IN_A_PART], ("adk",), ["pay"], [], id="the dialect of a part"),
        *(
            pytest.param([IN_A_PART], dialects, [], [("dialect_not_read", "info")], id=f"not that of a part {dialects}")
            for dialects in ((), ("kagent",))
        ),
    ],
)
async def test_events_are_read_as_the_proxy_reads_them(
    events: list[Any], dialects: tuple[str, ...], called: list[str], findings: list[tuple[str, str]]
) -> None:
    turn = await answer_of(agent_that_writes(events), dialects)
    assert (turn.state, names(turn)) == (COMPLETED, called)
    assert [(one.code, one.severity) for one in turn.findings] == findings


# ── what the wire says ──────────────────────────────────────────────────────────────────────────────────────

ARGUMENTS = {
    "zone": 1234567890123456789,
    "at": 2.0,
    "ratio": 0.1,
    "big": 2**63,
    "also": [{"z": -(2**63), "a": "\u2028"}],
}
"""Protobuf holds none of the integers, and gives the keys in another order; httpx ends a line at U+2028."""
READ = {**ARGUMENTS, "at": 2}


OLD_REPORT = {**reported(ARGUMENTS), "parts": [{"kind": "text", "text": "paid"}]}
WRITTEN: dict[tuple[str, str, bool], list[Any]] = {
    ("JSONRPC", "0.3", False): [
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}, "artifacts": [OLD_REPORT]}
    ],
    ("JSONRPC", "0.3", True): [
        {"kind": "artifact-update", **IDS, "artifact": OLD_REPORT},
        {"kind": "status-update", **IDS, "status": {"state": "completed"}, "final": True},
    ],
}
for others in [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("HTTP+JSON", "0.3")]:
    WRITTEN[*others, False] = [ended(reported(ARGUMENTS))]
    WRITTEN[*others, True] = [{"artifactUpdate": {**IDS, "artifact": reported(ARGUMENTS)}}, DONE]


@pytest.mark.parametrize(("binding", "version", "streaming"), WRITTEN)
async def test_calls_have_the_numbers_and_the_order_of_the_json(binding: str, version: str, streaming: bool) -> None:
    written = WRITTEN[binding, version, streaming]
    task = written[0].get("task")
    agent = agent_that_writes(written, binding=binding, version=version, streaming=streaming, task=task)
    turn = await answer_of(agent)
    (call,) = turn.tool_calls
    assert json.dumps(call.arguments) == json.dumps(READ)
    assert (turn.state, turn.text, turn.findings) == (COMPLETED, "paid", ())


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "body", "error", "says"),
    [
        *((status, b"go\n    away\n", AgentError, f"answered HTTP {status}: go away") for status in (401, 404, 500)),
        *((status, b"", AgentUnreachableError, f"answered HTTP {status}") for status in (502, 503)),
        *((200, body, AgentError, "agent card") for body in (b"<html>", b"[]", b'{"capabilities": 7}')),
    ],
)
async def test_without_a_card_there_is_an_error(status: int, body: bytes, error: type[CaptureError], says: str) -> None:
    def make_app(_: str) -> App:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await answer(send, b"text/plain", body, status=status)

        return app

    async with on_line(make_app) as line:
        with pytest.raises(error, match=says):
            async with CaptureClient(line.url):
                pass


async def test_a_card_without_a_binding_in_common() -> None:
    async with shop_agent(only("JSONRPC", "1.0")) as line:
        with pytest.raises(ConfigurationError, match=r"offers JSONRPC; expected HTTP\+JSON"):
            async with CaptureClient(line.url, binding="HTTP+JSON"):
                pass
    with pytest.raises(ConfigurationError, match="unknown binding 'SOAP'"):
        CaptureClient(line.url, binding="SOAP")


# ── headers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(347)
async def test_headers_take_environment_variables_and_go_with_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_TOKEN", "s3cret")
    headers = {"Authorization": "Bearer ${AGENT_TOKEN}", "A2A-Extensions": "https://example.com/other"}
    async with shop_agent() as line, CaptureClient(line.url, headers=headers) as client:
        await client.send("Where is order ORD-1001?")
        assert "s3cret" not in repr(client)
        assert "'Authorization': '***'" in repr(client)
    assert [request.headers["authorization"] for request in line.requests] == ["Bearer s3cret"] * 2
    assert line.requests[-1].headers["a2a-extensions"] == f"{URI},https://example.com/other"


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (None, "'Authorization' needs the environment variable AGENT_TOKEN"),
        ("s3cret\n", "header 'Authorization' holds a line break"),
        ("s3crét", "header 'Authorization' holds a line break"),
    ],
)
def test_a_header_that_cannot_be_sent_is_named_and_not_shown(
    token: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENT_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("AGENT_TOKEN", token)
    with pytest.raises(ConfigurationError, match=says) as caught:
        CaptureClient("http://agent", headers={"Authorization": "Bearer ${AGENT_TOKEN}"})
    assert "s3cr" not in str(caught.value)
