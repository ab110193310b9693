"""Onward export to a real receiver: unchanged, retried, bounded."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from a2a_eval_proxy import __version__
from a2a_eval_proxy.otlp import forwarding as otlp_forward
from a2a_eval_proxy.otlp.forwarding import OtlpForwarder
from support.otlp import JSON, PROTOBUF, CollectingSink, export_request, receiver, serving

BODY = export_request(["a"]).SerializeToString()


class Collector:
    """An ASGI application that keeps each request as it came, and answers as the test says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answer: Callable[[int], tuple[int, list[tuple[bytes, bytes]]]] = lambda _: (200, [])
        self._arrived = asyncio.Condition()

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        self.requests.append((scope["path"], headers, body))
        status, headers = self.answer(len(self.requests))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        async with self._arrived:
            self._arrived.notify_all()

    async def received(self, count: int) -> list[tuple[str, dict[str, str], bytes]]:
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.requests]


@asynccontextmanager
async def forwarding(url, headers=None, *, close_timeout_s=5.0, **options):
    forwarder = OtlpForwarder(url, headers, retry_s=0.01, **options)
    try:
        yield forwarder
    finally:
        await forwarder.close(close_timeout_s)


@pytest.fixture
def collector():
    return Collector()


@pytest.fixture
def address(port):
    """Where no process listens yet."""
    return f"127.0.0.1:{port}"


# ── what is sent ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_signal_goes_on_byte_for_byte(collector):
    sink = CollectingSink()
    zipped = gzip.compress(BODY)
    json_type = "application/json; charset=utf-8"
    async with serving(collector) as url, forwarding(url, {"x-key": "secret"}) as forward:
        async with receiver(sink, forward=forward) as own, httpx.AsyncClient() as client:
            for path, body, headers in (
                ("/v1/traces", BODY, {"content-type": PROTOBUF}),
                ("/v1/traces", zipped, {"content-type": PROTOBUF, "content-encoding": "gzip"}),
                ("/v1/logs", b' {"resourceLogs": [ ]}', {"content-type": json_type}),
                ("/v1/metrics", b"", {"content-type": PROTOBUF}),
            ):
                assert (await client.post(own + path, content=body, headers=headers)).status_code == 200
        requests = await collector.received(4)
    assert [(path, body) for path, _, body in requests] == [
        ("/v1/traces", BODY),
        ("/v1/traces", zipped),
        ("/v1/logs", b' {"resourceLogs": [ ]}'),
        ("/v1/metrics", b""),
    ]
    assert [headers["content-type"] for _, headers, _ in requests] == [PROTOBUF, PROTOBUF, json_type, PROTOBUF]
    assert [headers.get("content-encoding") for _, headers, _ in requests] == [None, "gzip", None, None]
    assert (
        requests[0][1].items()
        >= {
            "host": url.removeprefix("http://"),
            "user-agent": f"a2a-eval-proxy/{__version__}",
            "x-key": "secret",
            "content-length": str(len(BODY)),
            "content-type": PROTOBUF,
        }.items()
    )
    assert (forward.counts.outcomes["sent"], forward.counts.outcomes["dropped"], forward.counts.held_bytes) == (4, 0, 0)


async def test_what_is_refused_is_not_forwarded_and_a_failing_sink_does_not_matter(collector):
    sink = CollectingSink()
    sink.fail = lambda: {}["missing"]
    async with (
        serving(collector) as url,
        forwarding(url) as forward,
        receiver(sink, forward=forward) as own,
        httpx.AsyncClient() as client,
    ):
        for body, status in ((b"garbage", 400), (BODY, 500)):
            answer = await client.post(f"{own}/v1/traces", content=body, headers={"content-type": PROTOBUF})
            assert answer.status_code == status
        await forward.close(5.0)
    assert collector.bodies == [BODY]


@pytest.mark.parametrize(
    ("path", "target"),
    [("", "/v1/logs"), ("/", "/v1/logs"), ("/otlp", "/otlp/v1/logs"), ("/a/v1/traces", "/a/v1/logs")],
)
async def test_the_path_of_the_url_and_the_bytes_of_headers_are_kept(collector, path, target):
    async with serving(collector) as url, forwarding(url + path, {"x-key": "clé"}) as forward:
        forward.offer("/v1/logs", "application/json; note=é", "", b"{}")
        ((received, headers, _),) = await collector.received(1)
    assert (received, headers["x-key"], headers["content-type"]) == (target, "clé", "application/json; note=é")


# ── trouble ─────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_collector_that_is_down_gets_everything_when_it_comes(collector, address, caplog):
    caplog.set_level(logging.INFO, "a2a_eval_proxy")
    async with forwarding(f"http://{address}") as forward:
        for number in range(5):
            forward.offer("/v1/traces", JSON, "", b"%d" % number)
        while forward.counts.outcomes["retried"] < 3:
            await asyncio.sleep(0)
        async with serving(collector, address):
            await collector.received(5)
            await forward.close(5.0)
    assert collector.bodies == [b"%d" % number for number in range(5)]
    assert (forward.counts.outcomes["sent"], forward.counts.outcomes["dropped"], forward.counts.held_bytes) == (5, 0, 0)
    (waiting,) = [record.getMessage() for record in caplog.records]
    assert waiting.startswith(f"http://{address}: 1 request(s) with telemetry failed and are sent again, last: ")


@pytest.mark.parametrize(
    ("status", "retried"),
    [(one, 2) for one in (429, 502, 503, 504)] + [(one, 0) for one in (400, 401, 404, 413, 500, 301)],
)
async def test_some_answers_are_retried_and_what_is_lost_is_logged_once(collector, caplog, status, retried):
    collector.answer = lambda count: (status, [(b"retry-after", b"0")]) if count < 3 else (200, [])
    bodies = [b"1", b"1", b"1", b"2"] if retried else [b"1", b"2", b"3", b"4"]
    async with serving(collector) as url, forwarding(url) as forward:
        for body in dict.fromkeys(bodies):
            forward.offer("/v1/traces", JSON, "", body)
        await collector.received(4)
    assert collector.bodies == bodies
    assert forward.counts.outcomes == {"sent": 2, "retried": retried, "dropped": 2 - retried}
    lost = f"{url}: 1 request(s) with telemetry lost, last: status {status} at /v1/traces"
    assert caplog.messages.count(lost) == 2 - retried  # the first at once, the others when one succeeds or at the end


async def test_a_full_queue_drops_the_oldest(collector, address, caplog):
    async with forwarding(f"http://{address}", queue_bytes=35) as forward:
        forward.offer("/v1/traces", JSON, "", bytes(36))  # larger than the queue
        for number in range(10):
            forward.offer("/v1/traces", JSON, "", b"%010d" % number)
            assert forward.counts.held_bytes <= 35
        assert forward.counts.outcomes["dropped"] == 8
        async with serving(collector, address):
            await collector.received(3)
            await forward.close(5.0)
    assert collector.bodies == [b"%010d" % number for number in (7, 8, 9)]
    assert forward.counts.held_bytes == 0


async def test_what_was_tried_for_too_long_is_dropped(collector, monkeypatch):
    monkeypatch.setattr(otlp_forward, "LONGEST_TRIED_S", 0.0)
    collector.answer = lambda count: (503, []) if count == 1 else (200, [])
    async with serving(collector) as url, forwarding(url) as forward:
        forward.offer("/v1/traces", JSON, "", b"1")
        forward.offer("/v1/traces", JSON, "", b"2")
        await collector.received(2)
    assert collector.bodies == [b"1", b"2"]
    assert (forward.counts.outcomes["sent"], forward.counts.outcomes["dropped"]) == (1, 1)


async def test_close_gives_what_waits_another_chance(collector, address):
    forward = OtlpForwarder(f"http://{address}", retry_s=3600.0)
    forward.offer("/v1/traces", JSON, "", b"1")
    while not forward.counts.outcomes["retried"]:
        await asyncio.sleep(0)
    async with serving(collector, address):
        await forward.close(10.0)  # the next attempt would be due in 15 s or later
    assert collector.bodies == [b"1"]


async def test_close_gives_up_in_time_and_says_what_is_lost(address, caplog):
    async with forwarding(f"http://user:secret@{address}", close_timeout_s=0.05) as forward:
        for _ in range(3):
            forward.offer("/v1/traces", JSON, "", b"1")
    assert (forward.counts.outcomes["sent"], forward.counts.outcomes["dropped"], forward.counts.held_bytes) == (0, 3, 0)
    assert "2 request(s) with telemetry lost, last: " in caplog.records[-1].getMessage()
    assert "secret" not in caplog.text
