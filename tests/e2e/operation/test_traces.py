"""Tool calls from traces: a real a2a-sdk agent with the OpenTelemetry SDK, exporting OTLP to the proxy before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.features.worker.job_scorer import JobScorer, WorkerAgents
from a2a_eval_proxy.features.worker.options import WorkerOptions
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_eval_proxy.scoring.case_book import RegisteredCase
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store import Scored
from a2a_eval_proxy.store.postgres.store import PostgresStore
from a2a_eval_proxy.telemetry.event_bus import EventFilter
from a2a_tool_capture import METADATA_KEY, URI, ToolCall, agent_extension
from a2a_tool_capture.client import CaptureClient
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from tool_call_evaluators.suite import Case, CaseTurn, Expectation

CALLS = [
    {"id": "c1", "name": "search", "arguments": {"q": "kettle", "limit": 5}, "result": '["KET-01"]'},
    {"id": "c2", "name": "stock", "arguments": {"sku": "KET-01"}, "result": "3"},
    {"id": "c3", "name": "stock", "arguments": {"sku": "KET-01"}, "result": "3"},
    {"id": "c4", "name": "reserve", "arguments": {"sku": "KET-01"}, "error": "sold out"},
]
CALLED = [(call["name"], call["arguments"], call.get("result"), call.get("error")) for call in CALLS]


@dataclass
class Agent:
    """What the agent emits. `joins` says whether it continues the trace context it is sent."""

    emits_extension: bool = True
    traces: bool = True
    joins: bool = True
    names_conversation: bool = False
    with_ids: bool = True
    provider: TracerProvider | None = None
    held_back: bool = False
    alone: tuple[str, dict[str, Any]] | None = None
    """Scope and attributes of the only span, if there is only one."""
    seen: list[dict[str, str]] = field(default_factory=list)


class Executor(AgentExecutor):
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        agent = self.agent
        headers = context.call_context.state["headers"]
        agent.seen.append(headers)
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if agent.traces:
            assert agent.provider is not None
            scope = agent.alone[0] if agent.alone else "test.agent"
            self._trace(agent.provider.get_tracer(scope), headers, context.context_id or "")
            if not agent.held_back:
                await asyncio.to_thread(agent.provider.force_flush)  # the receiver is on this event loop
        asked = agent.emits_extension and URI in context.requested_extensions
        await updater.add_artifact(
            [new_text_part("three left")],
            metadata={METADATA_KEY: CALLS} if asked else None,
            extensions=[URI] if asked else None,
        )
        await updater.complete()

    def _trace(self, tracer: Tracer, headers: dict[str, str], context_id: str) -> None:
        parent = TraceContextTextMapPropagator().extract(headers) if self.agent.joins else None
        if self.agent.alone is not None:
            with tracer.start_as_current_span("POST /", context=parent, attributes=self.agent.alone[1]):
                return
        attributes: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 12}
        if self.agent.names_conversation:
            attributes["gen_ai.conversation.id"] = context_id
        with tracer.start_as_current_span("invoke_agent shop", context=parent, attributes=attributes):
            for call in CALLS:
                with tracer.start_as_current_span(f"execute_tool {call['name']}") as span:
                    span.set_attribute("gen_ai.operation.name", "execute_tool")
                    span.set_attribute("gen_ai.tool.name", call["name"])
                    if self.agent.with_ids:
                        span.set_attribute("gen_ai.tool.call.id", call["id"])
                    span.set_attribute("gen_ai.tool.call.arguments", json.dumps(call["arguments"]))
                    if "error" in call:
                        span.set_status(Status(StatusCode.ERROR, call["error"]))
                        span.set_attribute("error.type", "SoldOut")
                    else:
                        span.set_attribute("gen_ai.tool.call.result", call["result"])

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@asynccontextmanager
async def serving(agent: Agent) -> AsyncIterator[str]:
    app = Starlette()
    server = HttpServer(app, "127.0.0.1:0", shutdown_timeout_s=1)
    card = AgentCard(
        name="traced",
        description="traced",
        version="1",
        supported_interfaces=[AgentInterface(url=server.url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True, extensions=[agent_extension()] if agent.emits_extension else []),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="stock", name="stock", description="stock", tags=["shop"])],
    )
    handler = DefaultRequestHandler(Executor(agent), InMemoryTaskStore(), card)
    app.routes.extend([*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
    await server.start()
    try:
        yield server.url
    finally:
        await server.stop()


@contextmanager
def exporting(url: str) -> Iterator[TracerProvider]:
    provider = TracerProvider(resource=Resource({"service.name": "traced"}))
    # Nothing is exported until it is flushed.
    exporter = OTLPSpanExporter(f"{url}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000))
    try:
        yield provider
    finally:
        provider.shutdown()


@asynccontextmanager
async def behind_proxy(agent: Agent, tmp_path: Path, **settings: Any) -> AsyncIterator[RunningProxy]:
    async with serving(agent) as upstream:
        kept_in = str(tmp_path / "turns.db")
        options = {"trace_wait": 20.0, "expect_traces": agent.traces, "store": kept_in, **settings}
        async with run_proxy(
            Settings(
                upstream=upstream,
                listen="127.0.0.1:0",
                admin="127.0.0.1:0",
                otlp="127.0.0.1:0",
                run="traces",
                **options,
            )
        ) as proxy:
            assert proxy.otlp_url
            with exporting(proxy.otlp_url) as provider:
                agent.provider = provider
                yield proxy


async def one_turn(proxy: RunningProxy) -> dict[str, Any]:
    async with CaptureClient(proxy.url) as client:
        await client.send("Is the kettle in stock?")
    left = await proxy.flush(PATIENCE_S)
    assert left == {"pending": 0, "open": 0}
    (turn,) = await proxy.turns()
    return turn


def called(turn: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(call["name"], call["arguments"], call["result"], call["error"]) for call in turn["tool_calls"]]


@pytest.mark.parametrize("with_ids", [True, False], ids=["ids", "no ids"])
@pytest.mark.parametrize(
    ("emits_extension", "traces"),
    [(True, False), (False, True), (True, True), (False, False)],
    ids=["extension only", "traces only", "both", "neither"],
)
async def test_every_combination_yields_the_same_calls(
    tmp_path: Path, emits_extension: bool, traces: bool, with_ids: bool
) -> None:
    agent = Agent(emits_extension=emits_extension, traces=traces, with_ids=with_ids)
    async with behind_proxy(agent, tmp_path) as proxy:
        turn = await one_turn(proxy)
    assert called(turn) == (CALLED if emits_extension or traces else [])
    assert turn["capture"]["sources"] == (
        {"a2a_protocol": 4} if emits_extension else {"otel_trace": 4} if traces else {}
    )
    both = emits_extension and traces
    assert turn["capture"]["matched_by_id"] == (4 if both and with_ids else 0)
    assert turn["capture"]["matched_by_signature"] == (4 if both and not with_ids else 0)
    assert turn["capture"]["trace_only"] == (4 if traces and not emits_extension else 0)
    seen = emits_extension or traces
    assert [finding["code"] for finding in turn["findings"]] == ([] if seen else ["no_capture"])
    assert turn.get("usage") == ({"input_tokens": 12, "source": "spans"} if traces else None)
    if traces:
        assert all(call["started_at"] for call in turn["tool_calls"])


async def test_spans_after_scoring_merge_and_score_again(tmp_path: Path) -> None:
    agent = Agent(emits_extension=False, held_back=True)
    async with behind_proxy(agent, tmp_path, expect_traces=False) as proxy:
        scored_first = await one_turn(proxy)
        assert called(scored_first) == []
        assert [finding["code"] for finding in scored_first["findings"]] == ["no_capture"]
        assert [result["status"] for result in scored_first["evaluations"]] == ["skipped"]
        with proxy.control.bus.listen() as events:
            assert agent.provider is not None
            await asyncio.to_thread(agent.provider.force_flush)
            while "turn.done" not in [event.name for event in (await events.news()).events]:
                pass
        assert (await proxy.flush(PATIENCE_S))["pending"] == 0
        (turn,) = await proxy.turns()
    assert called(turn) == CALLED
    assert [result["score"] for result in turn["evaluations"]] == [0.75]
    assert [finding["code"] for finding in turn["findings"]] == ["late_spans"]


async def test_a_turn_that_is_bound_to_a_case_keeps_its_calls_and_later_spans_keep_its_case(tmp_path: Path) -> None:
    case = Case(id="kettle", turns=(CaseTurn("?", Expectation(tool_calls=(ToolCall("none of these"),))),))
    agent = Agent(emits_extension=False)
    async with behind_proxy(agent, tmp_path) as proxy:
        proxy.control.common.cases.put(RegisteredCase(case))
        merged = await one_turn(proxy)
        proxy.control.bind(merged, "kettle")
        await proxy.flush(PATIENCE_S)
        (bound,) = await proxy.turns()
        assert len(bound["spans"]) >= len(CALLED)
    assert bound == {**merged, "case_id": "kettle", "evaluations": bound["evaluations"]}
    agent = Agent(emits_extension=False, held_back=True)
    (tmp_path / "late").mkdir()
    async with behind_proxy(agent, tmp_path / "late", expect_traces=False) as proxy:
        proxy.control.common.cases.put(RegisteredCase(case))
        proxy.control.bind(await one_turn(proxy), "kettle")
        await proxy.flush(PATIENCE_S)
        with proxy.control.bus.listen() as events:
            assert agent.provider is not None
            await asyncio.to_thread(agent.provider.force_flush)
            while "turn.done" not in [event.name for event in (await events.news()).events]:
                pass
        await proxy.flush(PATIENCE_S)
        (turn,) = await proxy.turns()
    assert (turn["case_id"], called(turn)) == ("kettle", CALLED)


# ── a proxy that does not score ─────────────────────────────────────────────────────────────────────────────


async def test_workers_get_a_turn_when_its_traces_are_there(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.new_database()
    agent = Agent(emits_extension=False, held_back=True)
    async with behind_proxy(agent, tmp_path, evaluate=False, store=url) as proxy:
        with proxy.control.bus.listen(EventFilter(frozenset({"turn.closed"}))) as events:
            async with CaptureClient(proxy.url) as client:
                await client.send("Is the kettle in stock?")
            await events.news()  # the turn is stored
        assert await asyncio.to_thread(queued, url) == []
        assert agent.provider is not None
        await asyncio.to_thread(agent.provider.force_flush)
        assert await proxy.flush(PATIENCE_S) == {"pending": 0, "open": 0}
        (turn,) = await proxy.turns()
        assert called(turn) == CALLED
        assert await asyncio.to_thread(queued, url) == [[turn["turn_id"]]]


async def test_spans_after_a_worker_has_scored_make_a_turn_pending_again(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.new_database()
    agent = Agent(emits_extension=False, held_back=True)
    async with behind_proxy(agent, tmp_path, evaluate=False, store=url, expect_traces=False) as proxy:
        first = await one_turn(proxy)
        assert isinstance(proxy.control.store, PostgresStore)
        worker = JobScorer(proxy.control.store, WorkerAgents(proxy.control.store, WorkerOptions(store=url), {}))
        assert await worker.score([first["turn_id"]]) == 1
        outdated = await proxy.control.store.work.turns([first["turn_id"]])
        assert agent.provider is not None
        await asyncio.to_thread(agent.provider.force_flush)
        async with asyncio.timeout(PATIENCE_S):
            while (await proxy.turns())[0]["status"] != "pending":
                await asyncio.sleep(0.02)
        stale = [(Scored(first["turn_id"], []), claim) for claim in outdated]
        assert await proxy.control.store.work.finish(stale) == set()
        assert await worker.score([first["turn_id"]]) == 1
        (turn,) = await proxy.turns()
    assert (turn["status"], called(turn)) == ("done", CALLED)
    assert [result["score"] for result in turn["evaluations"]] == [0.75]
    assert [finding["code"] for finding in turn["findings"]] == ["late_spans"]


def queued(url: str) -> list[list[str]]:
    """The turns of each job."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT turn_ids FROM jobs ORDER BY id").fetchall()
    return [turn_ids for (turn_ids,) in rows]
