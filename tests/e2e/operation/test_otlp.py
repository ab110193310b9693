"""The OTLP port of a proxy process: hostile input, floods, and what is sent on to a collector."""

from __future__ import annotations

import gzip
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from agents.replay_agent import Answer, ReplayAgent
from e2e.contracts import GetAgent
from golden.spans.building import TRACE
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from support.otlp import JSON, PROTOBUF, export_request
from support.proxy import Proxy
from support.raw_a2a import Wire
from tools.bench.procfs import rss_bytes

MIB = 1024 * 1024
BODY = export_request(["a"]).SerializeToString()
ACCEPTED = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture(scope="module")
def proxy(agent: GetAgent, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(agent("v1"), tmp_path_factory.mktemp("store") / "turns.db", telemetry=True) as running:
        yield running


def post(proxy: Proxy, body: bytes, content_type: str = PROTOBUF, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()} | {"content-type": content_type}
    return httpx.post(f"{proxy.otlp_url}/v1/traces", content=body, headers=named, trust_env=False)


def passes_through(proxy: Proxy) -> bool:
    """Whether a turn still goes through and is captured."""
    text = f"artifact {uuid.uuid4()}"
    Wire("1.0", "JSONRPC").message(text).to(proxy.url)
    return len(proxy.turn_of(text)["tool_calls"]) == 2


def with_attribute(size: int) -> bytes:
    request = export_request(["a"])
    request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="input.value").value.string_value = "x" * size
    return request.SerializeToString()


def nested(levels: int) -> bytes:
    value = '{"arrayValue":{"values":[' * levels + '{"stringValue":"x"}' + "]}}" * levels
    ids = f'"traceId":"{TRACE}","spanId":"{TRACE[:16]}"'
    span = f'{{{ids},"attributes":[{{"key":"k","value":{value}}}]}}'
    return f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}'.encode()


@pytest.mark.parametrize(
    ("make", "content_type", "coding", "status"),
    [
        pytest.param(lambda: gzip.compress(bytes(128 * MIB)), PROTOBUF, "gzip", 413, id="gzip bomb"),
        pytest.param(lambda: gzip.compress(b"\x0a\x00" * 4 * MIB), PROTOBUF, "gzip", 413, id="empty spans, zipped"),
        pytest.param(lambda: gzip.compress(BODY)[:-4], PROTOBUF, "gzip", 400, id="gzip cut short"),
        pytest.param(lambda: BODY[:-3], PROTOBUF, "", 400, id="protobuf cut short"),
        pytest.param(lambda: os.urandom(4096), PROTOBUF, "", 400, id="noise"),
        pytest.param(lambda: b"[" * 2 * MIB, JSON, "", 413, id="brackets"),
        pytest.param(lambda: nested(30), JSON, "", 200, id="values in values"),
        pytest.param(lambda: nested(20_000), JSON, "", 400, id="values in values without end"),
        pytest.param(lambda: with_attribute(10 * MIB), PROTOBUF, "", 200, id="an attribute of 10 MiB"),
        pytest.param(lambda: with_attribute(64 * MIB), PROTOBUF, "", 413, id="an attribute of 64 MiB"),
        pytest.param(lambda: BODY, JSON, "", 400, id="protobuf called JSON"),
        pytest.param(lambda: b"{}", PROTOBUF, "", 400, id="JSON called protobuf"),
        pytest.param(lambda: BODY, "text/html", "", 415, id="a web page"),
        pytest.param(lambda: BODY, PROTOBUF, "br", 415, id="another coding"),
    ],
)
def test_hostile_bodies_get_a_proper_answer_and_leave_nothing_behind(
    proxy: Proxy, make: Callable[[], bytes], content_type: str, coding: str, status: int
) -> None:
    headers = {"content_encoding": coding} if coding else {}
    body = make()
    assert post(proxy, body, content_type, **headers).status_code == status
    if sys.platform == "linux":
        before = rss_bytes(proxy.process_id)
        for _ in range(3):
            assert post(proxy, body, content_type, **headers).status_code in (status, 503)
        assert rss_bytes(proxy.process_id) - before < 128 * MIB
    assert passes_through(proxy)
    assert post(proxy, BODY).status_code == 200


def flood(traces: int) -> bytes:
    """Tool spans, each in a trace of its own."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for _ in range(traces):
        span = spans.add(trace_id=os.urandom(16), span_id=os.urandom(8), name="execute_tool x")
        span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
        for name, value in (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "x")):
            span.attributes.add(key=name).value.string_value = value
    return request.SerializeToString()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_flood_of_unknown_traces_takes_bounded_memory(agent: GetAgent, tmp_path: Path) -> None:
    count, batches = 5_000, 24
    with Proxy(agent("v1"), tmp_path / "turns.db", telemetry=True) as proxy:
        before = rss_bytes(proxy.process_id)
        for _ in range(batches):
            body = flood(count)
            while post(proxy, body).status_code == 503:
                time.sleep(0.05)  # what the answer asks for, in small
        assert passes_through(proxy)
        assert rss_bytes(proxy.process_id) - before < 256 * MIB
        while "a2a_eval_proxy_spans_total 120000.0" not in (metrics := proxy.get_text("/metrics")):
            time.sleep(0.05)
    dropped = next(line for line in metrics.splitlines() if line.startswith("a2a_eval_proxy_spans_dropped_total"))
    assert float(dropped.split()[1]) > count * batches / 4


# ── sent on to a collector ──────────────────────────────────────────────────────────────────────────────────────


def test_the_collector_gets_its_key_and_nobody_else_sees_it(
    agent: GetAgent, replay: ReplayAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLECTOR_KEY", "s3cret")
    config = tmp_path / "config.yaml"
    config.write_text("otlp_forward_headers: {x-api-key: 'key ${COLLECTOR_KEY}', x-tenant: a}\nlog_level: debug\n")
    replay.prepare(Answer([ACCEPTED]))
    options = ("--config", str(config), "--otlp-forward", replay.url)
    with Proxy(agent("v1"), tmp_path / "turns.db", *options, telemetry=True) as proxy:
        assert post(proxy, BODY).status_code == 200
        while 'forward_requests_total{outcome="sent"} 1.0' not in (metrics := proxy.get_text("/metrics")):
            time.sleep(0.02)
        logged = proxy.stderr()
    (request,) = replay.received
    headers = dict(request.headers)
    assert (headers["x-api-key"], headers["x-tenant"], request.body) == ("key s3cret", "a", BODY)
    assert "a2a_eval_proxy_otlp_forward_held_bytes 0.0" in metrics
    assert "s3cret" not in logged + metrics
