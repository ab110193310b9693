"""Our own telemetry: real requests through a real proxy, exported to a real receiver."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.types import a2a_pb2, a2a_pb2_grpc
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.otlp.http_receiver import HttpReceiver
from a2a_eval_proxy.otlp.intake import Intake
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.telemetry import provider
from a2a_eval_proxy.telemetry.problem_log import SCOPE
from a2a_eval_proxy.telemetry.provider import result_attributes
from a2a_eval_proxy.telemetry.start import wanted_signals
from agents.grpc_agent import GrpcAgent, grpc_agent
from agents.scenario_agent import scenario_agent
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.trace import TraceFlags
from support.grpc_proxy import running_proxy
from support.otlp import PROTOBUF, CollectingSink, serving
from support.patience import PATIENCE_S
from tool_call_evaluators.model import EvalResult

TRACE_ID, CLIENT_SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{CLIENT_SPAN_ID}-01"
UNSAMPLED = f"00-{TRACE_ID}-{CLIENT_SPAN_ID}-00"


class Collector(CollectingSink):
    """A collector that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._others = HttpReceiver(Intake(self, max_bytes=1024 * 1024))
        self._arrived = asyncio.Condition()

    async def __call__(self, scope, receive, send):
        await self._others(scope, receive, send)
        async with self._arrived:
            self._arrived.notify_all()

    async def wait_for(self, condition) -> None:
        async with self._arrived:
            await self._arrived.wait_for(condition)

    def pair(self) -> tuple[Span, Span]:
        """The server and the client span of the only request that was traced."""
        spans = {span.kind: span for span in self.spans}
        assert len(self.spans) == len(spans) == 2, self.spans
        return spans[Span.SPAN_KIND_SERVER], spans[Span.SPAN_KIND_CLIENT]

    @property
    def events(self):
        return [
            record
            for request in self.log_requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


def values(attributes) -> dict[str, object]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch) -> None:
    for name in os.environ:
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
async def collector(monkeypatch) -> AsyncIterator[Collector]:
    collector = Collector()
    async with serving(collector) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        yield collector


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as server:
        yield server.url


@asynccontextmanager
async def proxying(tmp_path, upstream: str, **settings) -> AsyncIterator[tuple[RunningProxy, httpx.AsyncClient]]:
    options = {"otlp": None, "negotiate": "always", **settings}
    chosen = Settings(
        upstream=upstream, listen="127.0.0.1:0", admin="127.0.0.1:0", store=str(tmp_path / "turns.db"), **options
    )
    async with run_proxy(chosen) as proxy, httpx.AsyncClient(base_url=proxy.url, trust_env=False) as client:
        yield proxy, client


async def say(client: httpx.AsyncClient, text: str, *, stream: bool = False, **headers: str) -> httpx.Response:
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    method = "SendStreamingMessage" if stream else "SendMessage"
    content = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    return await client.post("/a2a/jsonrpc", json=content, headers={"A2A-Version": "1.0", **headers})


async def traceparent_at(agent: str) -> str | None:
    """What the agent's last request bore."""
    async with httpx.AsyncClient(trust_env=False) as client:
        requests = (await client.get(f"{agent}/_control/requests")).json()
    return dict(requests[-1]["headers"]).get("traceparent")


# ── spans ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [False, True], ids=["answer", "stream"])
async def test_spans_join_the_clients_trace_and_are_the_agents_parent(collector, agent, tmp_path, stream):
    async with proxying(tmp_path, agent) as (proxy, client):
        response = await say(client, "artifact please", stream=stream, traceparent=TRACEPARENT)
        assert response.status_code == 200
        sent = await traceparent_at(agent)
        await proxy.flush(PATIENCE_S)
        turns = await proxy.turns()
    server, inner = collector.pair()
    assert server.trace_id.hex() == inner.trace_id.hex() == TRACE_ID
    assert (server.parent_span_id.hex(), inner.parent_span_id) == (CLIENT_SPAN_ID, server.span_id)
    assert sent == f"00-{TRACE_ID}-{inner.span_id.hex()}-01"
    assert [turn["trace_id"] for turn in turns] == [TRACE_ID]
    times = [server.start_time_unix_nano, inner.start_time_unix_nano, inner.end_time_unix_nano]
    assert times == sorted(times)
    assert inner.end_time_unix_nano <= server.end_time_unix_nano


async def test_the_agents_spans_find_the_turn_whose_client_span_is_their_parent(collector, agent, tmp_path):
    async with proxying(tmp_path, agent, otlp="127.0.0.1:0") as (proxy, client):
        await say(client, "message one", traceparent=TRACEPARENT)
        parent = (await traceparent_at(agent)).split("-")[2]
        await say(client, "message two", traceparent=TRACEPARENT)
        request = ExportTraceServiceRequest()
        now, ids = time.time_ns(), {"trace_id": bytes.fromhex(TRACE_ID), "parent_span_id": bytes.fromhex(parent)}
        span = Span(name="search", span_id=b"toolspan", start_time_unix_nano=now, end_time_unix_nano=now, **ids)
        for key, value in (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "search")):
            span.attributes.add(key=key).value.string_value = value
        request.resource_spans.add().scope_spans.add().spans.append(span)
        headers = {"content-type": PROTOBUF}
        await proxy.flush(PATIENCE_S)
        with proxy.control.bus.listen() as done:
            await client.post(f"{proxy.otlp_url}/v1/traces", content=request.SerializeToString(), headers=headers)
            await asyncio.wait_for(done.news(), PATIENCE_S)
        await proxy.flush(PATIENCE_S)
        turns = await proxy.turns()
    assert {turn["user_text"]: [call["name"] for call in turn["tool_calls"]] for turn in turns} == {
        "message one": ["search"],
        "message two": [],
    }


async def test_spans_follow_the_http_conventions(collector, agent, tmp_path):
    async with proxying(tmp_path, agent) as (proxy, client):
        await say(client, "artifact please")
        port = int(proxy.url.rpartition(":")[2])
    server, inner = collector.pair()
    attributes = values(server.attributes)
    assert server.name == inner.name == "POST"
    assert isinstance(attributes.pop("client.port"), int)
    assert attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.scheme": "http",
        "url.path": "/a2a/jsonrpc",
        "network.protocol.version": "1.1",
        "server.address": "127.0.0.1",
        "server.port": port,
        "client.address": "127.0.0.1",
    }
    assert values(inner.attributes) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.full": f"{agent}/a2a/jsonrpc",
        "server.address": "127.0.0.1",
        "server.port": int(agent.rpartition(":")[2]),
    }
    assert {server.status.code, inner.status.code} == {Status.STATUS_CODE_UNSET}
    resource = values(collector.trace_requests[0].resource_spans[0].resource.attributes)
    assert resource["service.name"] == "a2a-eval-proxy"
    assert collector.trace_requests[0].resource_spans[0].scope_spans[0].scope.name == SCOPE


async def test_spans_are_redacted_by_the_rules_and_have_no_query(collector, agent, tmp_path):
    path, headers = "/a2a/rest/tasks/ann@example.com?key=secret", {"A2A-Version": "1.0", "Host": "bob@example.com"}
    async with proxying(tmp_path, agent, redact=parse_rules("email,ip")) as (_, client):
        await client.get(path, headers=headers)
        sent = await traceparent_at(agent)
    exported = str(collector.trace_requests)
    assert [word for word in ("@example.com", "secret") if word in exported] == []
    server, inner = collector.pair()
    assert sent.split("-")[1:3] == [server.trace_id.hex(), inner.span_id.hex()]
    assert inner.parent_span_id == server.span_id
    attributes = values(server.attributes)
    assert (attributes["url.path"], attributes["client.address"]) == ("/a2a/rest/tasks/[email]", "[ip]")
    assert values(inner.attributes)["url.full"].endswith("/a2a/rest/tasks/[email]")
    assert (attributes["http.response.status_code"], values(inner.attributes)["error.type"]) == (404, "404")
    # It is the client's mistake, not the server's.
    assert (server.status.code, inner.status.code) == (Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR)


async def test_an_agent_that_is_not_there(collector, tmp_path, port):
    async with proxying(tmp_path, f"http://127.0.0.1:{port}") as (_, client):
        assert (await say(client, "artifact please")).status_code == 502
    for span, status in zip(collector.pair(), (502, None), strict=True):
        attributes = values(span.attributes)
        assert (attributes["error.type"], attributes.get("http.response.status_code")) == (
            "upstream_unreachable",
            status,
        )
        assert span.status.code == Status.STATUS_CODE_ERROR


async def test_a_client_that_leaves(collector, agent, tmp_path):
    async with proxying(tmp_path, agent) as (_, client):
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}
        body["params"] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "slow leaving"}]}}
        async with client.stream("POST", "/a2a/jsonrpc", json=body, headers={"A2A-Version": "1.0"}) as response:
            await anext(response.aiter_bytes())
    for span in collector.pair():
        assert values(span.attributes)["error.type"] == "client_gone"
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.post(f"{agent}/_control/open?gate=leaving")


@pytest.mark.parametrize(
    ("sampler", "given"), [("parentbased_always_on", UNSAMPLED), ("always_off", TRACEPARENT)], ids=["client", "ours"]
)
async def test_what_is_not_sampled_passes_as_without_telemetry(collector, agent, tmp_path, monkeypatch, sampler, given):
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    async with proxying(tmp_path, agent) as (_, client):
        await say(client, "artifact please", traceparent=given)
        assert await traceparent_at(agent) == given
        await say(client, "artifact please")
        begun = await traceparent_at(agent)
    assert begun is not None
    assert int(begun[-2:], 16) & TraceFlags.SAMPLED  # the agent's spans are evidence
    assert len(collector.spans) == (2 if sampler.startswith("parent") else 0)


# ── events ──────────────────────────────────────────────────────────────────────────────────────────


async def test_each_evaluation_result_is_an_event_of_the_turns_span(collector, agent, tmp_path):
    async with proxying(tmp_path, agent, run="night") as (proxy, client):
        await say(client, "multi please", traceparent=TRACEPARENT)
        await proxy.flush(PATIENCE_S)
        (turn,) = await proxy.turns()
    (event,) = collector.events
    _, inner = collector.pair()
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id.hex(), event.span_id) == (TRACE_ID, inner.span_id)
    (result,) = turn["evaluations"]
    attributes = values(event.attributes)
    assert result["reason"]
    assert attributes == {
        "gen_ai.evaluation.name": "tool_error",
        "gen_ai.evaluation.score.value": pytest.approx(result["score"]),
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": result["reason"],
        "gen_ai.conversation.id": turn["conversation_id"],
        "a2a_eval_proxy.evaluation.status": "failed",
        "a2a_eval_proxy.turn_id": turn["turn_id"],
        "a2a_eval_proxy.run": "night",
    }


def test_results_without_a_score_have_neither_value_nor_label():
    skipped = result_attributes(EvalResult.skipped("judge", "no rubric").to_dict())
    errored = result_attributes(EvalResult.errored("judge", "the judge is not there").to_dict())
    assert skipped == {
        "gen_ai.evaluation.name": "judge",
        "gen_ai.evaluation.explanation": "no rubric",
        "a2a_eval_proxy.evaluation.status": "skipped",
    }
    assert errored == {
        "gen_ai.evaluation.name": "judge",
        "gen_ai.evaluation.explanation": "the judge is not there",
        "a2a_eval_proxy.evaluation.status": "errored",
        "error.type": "evaluator_error",
    }
    own = result_attributes(EvalResult("kind", 4.0, label="helpful", scale=(1.0, 5.0)).to_dict())
    assert own["gen_ai.evaluation.score.label"] == "helpful"


# ── what it must not do ─────────────────────────────────────────────────────────────────────────────────────────


async def test_what_we_export_to_ourselves_is_no_evidence(agent, tmp_path, monkeypatch, port):
    address = f"127.0.0.1:{port}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{address}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "10")
    collector = Collector()
    async with (
        serving(collector) as url,
        proxying(tmp_path, agent, otlp=address, otlp_forward=url) as (proxy, client),
    ):
        await say(client, "multi please", traceparent=TRACEPARENT)
        await proxy.flush(PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            # They came back to us, and went on from there.
            await collector.wait_for(lambda: bool(collector.spans and collector.events))
        await say(client, "artifact please", traceparent=TRACEPARENT)
        await proxy.flush(PATIENCE_S)
        assert proxy.control.serving.metrics.spans == 0
        assert not proxy.control.tracing.heard(None)
        turns = await proxy.turns()
    assert [turn["findings"] for turn in turns] == [[], []]
    assert len(collector.events) == 2  # a result that counted as evidence would be scored again, and so on


@pytest.mark.parametrize("interval", ["60000", "0"], ids=["no collector", "no valid setting"])
async def test_traffic_passes_where_telemetry_cannot(agent, tmp_path, monkeypatch, interval, port):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", interval)
    async with proxying(tmp_path, agent) as (proxy, client):
        assert (await say(client, "artifact please")).status_code == 200
        await proxy.flush(PATIENCE_S)
        (turn,) = await proxy.turns()
    assert turn["status"] == "done"


async def test_a_collector_that_never_answers_does_not_hold_up_the_end(agent, tmp_path, monkeypatch, caplog):
    released = asyncio.Event()

    async def never(scope, receive, send):
        await released.wait()

    monkeypatch.setattr(provider, "CLOSE_S", 0.2)
    async with serving(never) as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        async with proxying(tmp_path, agent) as (proxy, client):
            await say(client, "artifact please")
            await proxy.flush(PATIENCE_S)
        assert "within 0.2 s" in caplog.text
        released.set()


def test_off_imports_nothing_of_the_sdk(agent, tmp_path):
    script = """
import asyncio, json, sys
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.settings.settings import Settings

async def main():
    async with run_proxy(Settings(upstream=sys.argv[1], listen="127.0.0.1:0", admin="127.0.0.1:0",
                                  otlp="127.0.0.1:0", store=sys.argv[2])):
        pass

asyncio.run(main())
print(json.dumps([name for name in sys.modules if name.startswith("opentelemetry")]))
"""
    command = [sys.executable, "-c", script, agent, str(tmp_path / "turns.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    loaded = {".".join(name.split(".")[:2]) for name in json.loads(done.stdout)}
    assert loaded == {"opentelemetry", "opentelemetry.proto"}


@pytest.mark.parametrize(
    ("environment", "signals"),
    [
        ({}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, ("traces", "logs")),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"}, ()),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "no"}, ("traces", "logs")),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_LOGS_EXPORTER": "none"}, ("traces",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, ("traces",)),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c/m", "OTEL_LOGS_EXPORTER": "console, otlp"}, ("logs",)),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://c/l"}, ("logs",)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ()),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf",
            },
            ("logs",),
        ),
    ],
)
def test_wanted_signals(environment, signals):
    assert wanted_signals(environment) == signals


# ── over gRPC ───────────────────────────────────────────────────────────────────────────────────────────────

VERSION = ("a2a-version", "1.0")


@dataclass
class OverGrpc:
    """An agent over gRPC behind a proxy, and how clients reach the latter."""

    agent: GrpcAgent
    proxy: RunningProxy
    channel: grpc.aio.Channel

    @property
    def stub(self) -> Any:
        return a2a_pb2_grpc.A2AServiceStub(self.channel)


@pytest.fixture
async def over_grpc(collector, tmp_path, monkeypatch) -> AsyncIterator[OverGrpc]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    async with (
        grpc_agent() as agent,
        running_proxy(agent.url, tmp_path) as proxy,
        grpc.aio.insecure_channel(proxy.grpc_address) as channel,
    ):
        yield OverGrpc(agent, proxy, channel)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_spans_of_calls_over_grpc_are_as_over_http(collector, over_grpc, method):
    said = {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "artifact hi"}]}
    metadata = (VERSION, ("traceparent", TRACEPARENT))
    call = getattr(over_grpc.stub, method)(a2a_pb2.SendMessageRequest(message=said), metadata=metadata)
    _ = [event async for event in call] if "Streaming" in method else await call
    await over_grpc.proxy.flush(PATIENCE_S)
    (turn,) = await over_grpc.proxy.turns()
    await collector.wait_for(lambda: len(collector.spans) == 2)
    server, inner = collector.pair()
    name = f"lf.a2a.v1.A2AService/{method}"
    assert server.name == inner.name == name
    assert server.trace_id.hex() == inner.trace_id.hex() == turn["trace_id"] == TRACE_ID
    assert (server.parent_span_id.hex(), inner.parent_span_id) == (CLIENT_SPAN_ID, server.span_id)
    (sent,) = [value for key, value in over_grpc.agent.seen[-1].metadata if key == "traceparent"]
    assert sent == f"00-{TRACE_ID}-{inner.span_id.hex()}-01"
    common = {"rpc.system.name": "grpc", "rpc.method": name, "rpc.response.status_code": "OK"}
    attributes = values(server.attributes)
    assert attributes.pop("client.port") > 0
    assert attributes == {**common, "client.address": "127.0.0.1"}
    port = int(over_grpc.agent.address.rpartition(":")[2])
    assert values(inner.attributes) == {**common, "server.address": "127.0.0.1", "server.port": port}
    assert {server.status.code, inner.status.code} == {Status.STATUS_CODE_UNSET}


async def test_the_status_of_a_call(collector, over_grpc):
    """The client's mistake is no error of the server; methods that are not of A2A share one name."""
    unknown = a2a_pb2.GetTaskRequest(id="unknown")
    with pytest.raises(grpc.aio.AioRpcError):
        await over_grpc.stub.GetTask(unknown, metadata=(VERSION,))
    with pytest.raises(grpc.aio.AioRpcError):
        await over_grpc.channel.unary_unary("/some.Service/Of-" + "x" * 20)(b"")
    await over_grpc.agent.stop()
    with pytest.raises(grpc.aio.AioRpcError):
        await over_grpc.stub.GetTask(unknown, metadata=(VERSION,))
    await collector.wait_for(lambda: len(collector.spans) == 6)
    seen = {(span.kind, values(span.attributes)["rpc.response.status_code"]): span for span in collector.spans}
    kinds = {"server": Span.SPAN_KIND_SERVER, "client": Span.SPAN_KIND_CLIENT}
    failed = {
        (kind, code): seen[kinds[kind], code].status.code == Status.STATUS_CODE_ERROR
        for kind in kinds
        for code in ("NOT_FOUND", "UNIMPLEMENTED", "UNAVAILABLE")
    }
    assert [key for key in failed if not failed[key]] == [("server", "NOT_FOUND")]
    unknown = seen[kinds["server"], "UNIMPLEMENTED"]
    assert (unknown.name, values(unknown.attributes)["rpc.method"]) == ("grpc", "_OTHER")
    assert values(unknown.attributes)["rpc.method_original"] == "some.Service/Of-" + "x" * 20
