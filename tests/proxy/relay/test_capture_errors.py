"""Every entry of capture raises, over every kind of body: the client's bytes are those without the error.

Calls of gRPC have the same exchange, which is where errors of capture end.
"""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from a2a_eval_proxy.capture import task_fold
from a2a_eval_proxy.capture.captured_exchange import CapturedExchange
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.relay import wire_log
from a2a_eval_proxy.relay.wire_log import WireLog, WireRecord
from a2a_eval_proxy.scoring.pipeline import Pipeline
from a2a_eval_proxy.serving.task_log import TaskLog
from a2a_eval_proxy.store.observations import ObservationTable
from a2a_eval_proxy.store.write_queue import QueuedWrites
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer
from support.proxied import Proxied, proxied

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATUS = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
ARTIFACT = {
    "artifactId": "a",
    "parts": [{"text": "found"}],
    "metadata": {METADATA_KEY: [{"id": "1", "name": "search", "arguments": {"q": "x"}, "result": "42"}]},
    "extensions": [URI],
}
TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [ARTIFACT]}
EVENTS: list[dict[str, Any]] = [
    {"task": {**TASK, "status": {"state": "TASK_STATE_SUBMITTED"}, "artifacts": []}},
    {"statusUpdate": STATUS},
    *(
        {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {**ARTIFACT, "artifactId": f"a{number}"}}}
        for number in range(4)
    ),
    {"statusUpdate": {**STATUS, "status": {"state": "TASK_STATE_COMPLETED"}}},
]


def envelope(result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


def answer(body: bytes, kind: str, *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-type: {kind}", *fields, f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(pieces: list[bytes], kind: str, *fields: str) -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"content-type: {kind}", *fields, "transfer-encoding: chunked", "", ""])
    return head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


SSE = [b"data: %b\n\n" % envelope(event) for event in EVENTS]
JSON = envelope({"task": TASK})
REST, REST_SSE = json.dumps({"task": TASK}).encode(), [b"data: %b\n\n" % json.dumps(event).encode() for event in EVENTS]
GZIP = "content-encoding: gzip"
ERROR = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}).encode()


def message(*, asked: bool = False) -> dict[str, Any]:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    return {**said, "extensions": [URI]} if asked else said


def send(method: str = "SendMessage") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message()}}


class Body(NamedTuple):
    """What the agent answers, and to which request."""

    answer: bytes
    request: Any = send()
    packed: bool = False
    path: str = "/"


STREAM = send("SendStreamingMessage")
GET = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}
BODIES = {
    "events": Body(chunked(SSE, "text/event-stream"), STREAM),
    "events in one piece": Body(answer(b"".join(SSE), "text/event-stream"), STREAM),
    "compressed events": Body(chunked([*map(gzip.compress, SSE)], "text/event-stream", GZIP), STREAM),
    "events after a compressed request": Body(chunked(SSE, "text/event-stream"), STREAM, packed=True),
    "document": Body(answer(JSON, "application/json")),
    "compressed document": Body(answer(gzip.compress(JSON), "application/json", GZIP)),
    "document in pieces": Body(chunked([JSON[:30], JSON[30:]], "application/json")),
    "compressed pieces": Body(chunked([gzip.compress(JSON)], "application/json; x=y", GZIP)),
    "large document": Body(answer(envelope({"task": {**TASK, "metadata": {"x": "y" * 400_000}}}), "application/json")),
    "error": Body(answer(ERROR, "application/json")),
    "refusal": Body(answer(ERROR, "application/json", status="500 No")),
    "poll": Body(answer(envelope(TASK), "application/json"), GET),
    "subscription": Body(chunked(SSE, "text/event-stream"), {**GET, "method": "SubscribeToTask"}),
    "list": Body(answer(envelope({"tasks": [TASK]}), "application/json"), {**GET, "method": "ListTasks", "params": {}}),
    "batch": Body(answer(b"[%b]" % JSON, "application/json"), [send()]),
    "text": Body(chunked([b"no ", b"JSON"], "text/plain")),
    "REST document": Body(answer(REST, "application/json"), {"message": message()}, path="/v1/message:send"),
    "REST events": Body(chunked(REST_SSE, "text/event-stream"), {"message": message()}, path="/v1/message:stream"),
}

ENTRIES: list[tuple[type, str]] = [
    *((TurnBook, name) for name in ("open", "follow", "feed", "touch", "end", "report", "over")),
    *((CapturedExchange, name) for name in ("request", "event", "answer", "refused", "report", "end")),
    *((TaskLog, name) for name in ("put", "is_behind")),
    *((Pipeline, name) for name in ("take", "keep_open", "written", "revise")),
    *((ObservationTable, name) for name in ("add", "of_task", "count", "keep_until")),
    *((QueuedWrites, name) for name in ("add", "finish")),
    *((WireLog, name) for name in ("begin", "grow")),
    *((WireRecord, name) for name in ("answer_begins", "part", "end")),
]


@pytest.fixture(params=ENTRIES, ids=lambda entry: f"{entry[0].__name__}.{entry[1]}")
def breaks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Have an entry of capture raise after it was called that often."""
    owner, name = request.param
    whole = getattr(owner, name)

    def plant(after: int) -> None:
        monkeypatch.undo()
        calls = 0

        def broken(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > after:
                raise RuntimeError("a bug")
            return whole(*arguments, **named)

        monkeypatch.setattr(owner, name, broken)

    return plant


@pytest.fixture(scope="module", autouse=True)
def all_is_logged() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_log, "MAX_AT_ONCE", 1_000_000)
        yield


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("errors"), negotiate="always") as setup:
        yield setup


def headers_of(*, asks: bool) -> dict[str, str]:
    """Of a client that asks for the extension, or of another one that never does."""
    return {"authorization": "Bearer asks", "a2a-extensions": URI} if asks else {"authorization": "Bearer other"}


async def received(setup: Proxied, body: Body, *, asks: bool) -> tuple[int, list[tuple[str, str]], bytes]:
    setup.agent.prepare(Answer([body.answer]))
    headers = {"a2a-version": "1.0", "content-type": "application/json", **headers_of(asks=asks)}
    content = json.dumps(body.request).encode()
    if body.packed:
        content, headers["content-encoding"] = gzip.compress(content), "gzip"
    async with setup.data.stream("POST", body.path, content=content, headers=headers) as response:
        raw = b"".join([part async for part in response.aiter_raw()])
    fields = [(name, value) for name, value in response.headers.multi_items() if name != "date"]
    return response.status_code, fields, raw


@pytest.mark.parametrize("asks", [False, True])
async def test_the_client_gets_what_it_gets_without_the_error(
    setup: Proxied, asks: bool, breaks: Callable[[int], None]
) -> None:
    whole = {name: await received(setup, body, asks=asks) for name, body in BODIES.items()}
    assert (URI.encode() in whole["events"][2]) is (URI.encode() in whole["document"][2]) is asks
    for after in (1, 0):
        for name, body in BODIES.items():
            breaks(after)
            assert await received(setup, body, asks=asks) == whole[name], name


@pytest.mark.parametrize("entry", ["feed", "end"])
@pytest.mark.parametrize("name", ["events", "document"])
async def test_the_turn_says_that_its_calls_are_unknown(
    tmp_path: Path, name: str, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr(task_fold, "LINGER_S", 0.1)
    async with proxied(tmp_path, negotiate="always") as setup:
        with monkeypatch.context() as patch:
            patch.setattr(TurnBook, entry, broken)
            assert (await received(setup, BODIES[name], asks=False))[0] == 200
        await setup.flushed()
        (turn,) = await setup.turns()
        assert (turn["calls"], turn["calls_evidence"]) == ("unknown", "capture_error")


async def test_the_log_says_what_is_true(
    setup: Proxied, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unheard(*_: object, **__: object) -> Any:
        raise RuntimeError("a bug that was not logged before")

    monkeypatch.setattr(CapturedExchange, "event", unheard)
    with caplog.at_level(logging.ERROR):
        await received(setup, BODIES["events"], asks=False)
        await received(setup, BODIES["events"], asks=False)
    (record,) = caplog.records
    assert record.getMessage() == (
        "capture failed; what clients and agents send each other passes all the same, but a turn may lack calls, or be "
        "missing"
    )
