"""The OTLP/HTTP receiver on a real port: what it answers, and senders that misbehave."""

from __future__ import annotations

import asyncio
import gzip
import logging
from contextlib import asynccontextmanager

import httpx
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from support.otlp import JSON, PROTOBUF, CollectingSink, export_request, receiver

BODY = export_request(["a", "b"]).SerializeToString()
JSON_BODY = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01","name":"a"},{"name":"b"}]}]}]}'


@pytest.fixture
def sink():
    return CollectingSink()


@pytest.fixture
async def client():
    async with httpx.AsyncClient() as client:
        yield client


async def post(client, url, body, content_type=PROTOBUF, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post(f"{url}/v1/traces", content=body, headers={"content-type": content_type, **named})


@asynccontextmanager
async def connection(url):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()


def head(content_length):
    lines = ["POST /v1/traces HTTP/1.1", "host: x", f"content-type: {PROTOBUF}", f"content-length: {content_length}"]
    return "\r\n".join([*lines, "", ""]).encode()


async def status_line(reader):
    return (await reader.readline()).decode().strip()


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_success_is_empty_in_the_encoding_of_the_request(sink, client):
    async with receiver(sink) as url:
        answer = await post(client, url, BODY, f"{PROTOBUF}; x=y")
        assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, PROTOBUF, b"")
        answer = await post(client, url, JSON_BODY, "application/json; charset=utf-8")
        assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, JSON, {})
        answer = await post(client, url, gzip.compress(JSON_BODY), JSON, content_encoding="gzip")
        assert (answer.status_code, answer.json()) == (200, {})
    assert [span.name for span in sink.spans] == ["a", "b"] * 3
    assert sink.sizes == [len(BODY), len(JSON_BODY), len(JSON_BODY)]


async def test_partial_success_says_how_many_and_why(sink, client):
    sink.rejects = 3
    said = "spans need a trace id of 16 bytes and a span id of 8, neither all zeroes"
    async with receiver(sink) as url:
        answer = await post(client, url, BODY)
        partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert (answer.status_code, partial.rejected_spans, partial.error_message) == (200, 3, said)
        answer = await post(client, url, JSON_BODY, JSON)
        assert answer.json() == {"partialSuccess": {"rejectedSpans": "3", "errorMessage": said}}
    assert len(sink.losses) == 2


@pytest.mark.parametrize(
    ("body", "content_type", "headers", "status", "complaint"),
    [
        (b"garbage", PROTOBUF, {}, 400, "not a protobuf message ExportTraceServiceRequest"),
        (BODY[:-1], PROTOBUF, {}, 400, "not a protobuf message"),
        (BODY, JSON, {}, 400, "not JSON"),
        (b'{"resourceSpans":[{"scopeSpans":5}]}', JSON, {}, 400, "resourceSpans.scopeSpans: repeated field"),
        (b"[" * 100_000, JSON, {}, 400, "not JSON"),
        (gzip.compress(BODY)[:-1], PROTOBUF, {"content_encoding": "gzip"}, 400, "truncated"),
        (gzip.compress(bytes(9_000_000)), PROTOBUF, {"content_encoding": "gzip"}, 413, "when decompressed"),
        (bytes(1024 * 1024 + 1), PROTOBUF, {}, 413, "exceeds 1048576 bytes"),
        (BODY, PROTOBUF, {"content_encoding": "br"}, 415, "content encoding 'br'"),
        (BODY, "text/plain", {}, 415, "content type 'text/plain'"),
        (BODY, "", {}, 415, "content type ''"),
    ],
)
async def test_refusals_are_a_status_in_the_encoding_of_the_request(
    sink, client, body, content_type, headers, status, complaint
):
    async with receiver(sink) as url:
        answer = await post(client, url, body, content_type, **headers)
        assert answer.status_code == status
        assert complaint in status_message(answer)
        assert answer.headers["content-type"] == (PROTOBUF if content_type == PROTOBUF else JSON)
        assert ("accept-encoding" in answer.headers) == (status == 415)
        assert (await post(client, url, BODY)).status_code == 200
    assert len(sink.trace_requests) == 1
    assert [complaint in loss for loss in sink.losses] == [True]


def status_message(answer):
    if answer.headers["content-type"] == PROTOBUF:
        status = Status.FromString(answer.content)
        assert status.code
        return status.message
    assert answer.json()["code"]
    return answer.json()["message"]


async def test_other_paths_and_methods(sink, client):
    async with receiver(sink) as url:
        answer = await client.post(f"{url}/v1/profiles", content=BODY, headers={"content-type": PROTOBUF})
        assert (answer.status_code, status_message(answer)) == (
            404,
            "no /v1/profiles here; OTLP goes to /v1/traces, /v1/logs, /v1/metrics",
        )
        answer = await client.get(f"{url}/v1/traces")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert status_message(answer) == "GET is not for /v1/traces; use POST"


async def test_a_sink_that_raises_is_told_to_the_sender_and_logged_once(sink, client, caplog):
    def fail():
        raise KeyError("bug behind HTTP")

    sink.fail = fail
    async with receiver(sink) as url:
        for _ in range(3):
            answer = await post(client, url, JSON_BODY, JSON)
            assert (answer.status_code, answer.json()["code"]) == (500, 13)
            assert "bug" not in answer.text
        sink.fail = lambda: None
        assert (await post(client, url, BODY)).status_code == 200
    assert [record.exc_info[0] for record in caplog.records if record.levelno >= logging.WARNING] == [KeyError]


# ── senders that misbehave ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_huge_content_length_is_refused_before_the_body(sink):
    async with receiver(sink) as url, connection(url) as (reader, writer):
        writer.write(head(10**15))
        assert await status_line(reader) == "HTTP/1.1 413 Request Entity Too Large"


async def test_a_chunked_body_is_refused_at_the_limit(sink, client):
    async def chunks():
        for _ in range(64):
            yield bytes(65536)

    async with receiver(sink) as url:
        answer = await client.post(f"{url}/v1/traces", content=chunks(), headers={"content-type": PROTOBUF})
        assert answer.status_code == 413
        assert (await post(client, url, BODY)).status_code == 200  # on the same connection


async def test_a_slow_sender_is_given_up(sink):
    async with receiver(sink, body_timeout_s=0.05) as url, connection(url) as (reader, writer):
        writer.write(head(len(BODY)) + BODY[:-1])
        assert await status_line(reader) == "HTTP/1.1 408 Request Timeout"
        assert b"connection: close" in (await reader.read()).lower()  # and it is closed
    assert not sink.trace_requests


async def test_a_sender_that_leaves_is_nobodys_error(sink, client, caplog):
    async with receiver(sink) as url:
        async with connection(url) as (_, writer):
            writer.write(head(len(BODY)) + BODY[:-1])
            await writer.drain()
        assert (await post(client, url, BODY)).status_code == 200
    assert len(sink.trace_requests) == 1
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_bodies_held_at_once_are_bounded(sink, client):
    body = export_request(["x" * 900]).SerializeToString()
    async with receiver(sink, max_bytes=len(body)) as url:
        connections = [await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2])) for _ in range(6)]
        answers = {asyncio.create_task(status_line(reader)): writer for reader, writer in connections}
        for _, writer in connections:
            writer.write(head(len(body)) + body[:-1])
        refused, waiting = set(), set(answers)
        while len(refused) < 2:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused |= done
        assert {task.result() for task in refused} == {"HTTP/1.1 503 Service Unavailable"}
        for task in waiting:
            answers[task].write(body[-1:])
        assert [await task for task in waiting] == ["HTTP/1.1 200 OK"] * 4
        for _, writer in connections:
            writer.close()
        assert (await post(client, url, body)).status_code == 200  # nothing is held any more
    assert len(sink.trace_requests) == 5
