"""Tool calls from traces: a real a2a-sdk agent with the OpenTelemetry SDK, exporting OTLP to the proxy before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.features.worker.command import JobScorer, WorkerAgents
from a2a_eval_proxy.features.worker.options import WorkerOptions
from a2a_eval_proxy.settings.settings import Settings
from a2a_eval_proxy.store import Scored
from a2a_eval_proxy.store.postgres.store import PostgresStore
from a2a_eval_proxy.telemetry.event_bus import EventFilter
from a2a_tool_capture import METADATA_KEY, URI
from a2a_tool_capture.client import CaptureClient
from agents.scenario_agent import RPC_PATH, AgentOptions, agent_card
from agents.serving import ServerThread
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer

CALLS = [
    {"id": "c1", "name": "search", "arguments": {"q": "kettle", "limit": 5}, "result": '["KET-01"]'},
    {"id": "c2", "name": "stock", "arguments": {"sku": "KET-01"}, "result": "3"},
    {"id": "c3", "name": "stock", "arguments": {"sku": "KET-01"}, "result": "3"},
    {"id": "c4", "name": "reserve", "arguments": {"sku": "KET-01"}, "error": "sold out"},
]
CALLED = [(call["name"], call["arguments"], call.get("result"), call.get("error")) for call in CALLS]


@dataclass
class Agent(AgentExecutor):
    """An agent that makes `CALLS`, and what it emits of them."""

    emits_extension: bool = True
    traces: bool = True
    with_ids: bool = True
    held_back: bool = False
    """Whether its spans wait until the test flushes them."""
    provider: TracerProvider = field(init=False)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.call_context is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if self.traces:
            self._trace(TraceContextTextMapPropagator().extract(context.call_context.state["headers"]))
            if not self.held_back:
                self.provider.force_flush()
        asked = self.emits_extension and URI in context.requested_extensions
        await updater.add_artifact(
            [new_text_part("three left")],
            metadata={METADATA_KEY: CALLS} if asked else None,
            extensions=[URI] if asked else None,
        )
        await updater.complete()

    def _trace(self, parent: Context) -> None:
        tracer = self.provider.get_tracer("test.agent")
        attributes: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 12}
        with tracer.start_as_current_span("invoke_agent shop", context=parent, attributes=attributes):
            for call in CALLS:
                with tracer.start_as_current_span(f"execute_tool {call['name']}") as span:
                    span.set_attribute("gen_ai.operation.name", "execute_tool")
                    span.set_attribute("gen_ai.tool.name", call["name"])
                    if self.with_ids:
                        span.set_attribute("gen_ai.tool.call.id", call["id"])
                    span.set_attribute("gen_ai.tool.call.arguments", json.dumps(call["arguments"]))
                    if "error" in call:
                        span.set_status(Status(StatusCode.ERROR, call["error"]))
                    else:
                        span.set_attribute("gen_ai.tool.call.result", call["result"])

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError

    def app(self, url: str) -> Starlette:
        card = agent_card(url, AgentOptions(declared=self.emits_extension))
        handler = DefaultRequestHandler(self, InMemoryTaskStore(), card)
        return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, RPC_PATH)])


@asynccontextmanager
async def behind_proxy(agent: Agent, store: str, **more: Any) -> AsyncIterator[RunningProxy]:
    ports = dict.fromkeys(("listen", "admin", "otlp"), "127.0.0.1:0")
    given: dict[str, Any] = {**ports, "trace_wait": 20.0, "expect_traces": agent.traces, **more}
    with ServerThread(agent.app) as served:
        async with run_proxy(Settings(upstream=served.url, store=store, run="traces", **given)) as proxy:
            # Nothing is exported until it is flushed.
            exporter = OTLPSpanExporter(f"{proxy.otlp_url}/v1/traces")
            agent.provider = TracerProvider(resource=Resource({"service.name": "traced"}))
            agent.provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000))
            try:
                yield proxy
            finally:
                await asyncio.to_thread(agent.provider.shutdown)


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
    async with behind_proxy(agent, str(tmp_path / "turns.db")) as proxy:
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
    async with behind_proxy(agent, str(tmp_path / "turns.db"), expect_traces=False) as proxy:
        scored_first = await one_turn(proxy)
        assert called(scored_first) == []
        assert [finding["code"] for finding in scored_first["findings"]] == ["no_capture"]
        assert [result["status"] for result in scored_first["evaluations"]] == ["skipped"]
        with proxy.control.bus.listen() as events:
            await asyncio.to_thread(agent.provider.force_flush)
            while "turn.done" not in [event.name for event in (await events.news()).events]:
                pass
        assert (await proxy.flush(PATIENCE_S))["pending"] == 0
        (turn,) = await proxy.turns()
    assert called(turn) == CALLED
    assert [result["score"] for result in turn["evaluations"]] == [0.75]
    assert [finding["code"] for finding in turn["findings"]] == ["late_spans"]


# ── a proxy that does not score ─────────────────────────────────────────────────────────────────────────────


async def test_workers_get_a_turn_when_its_traces_are_there(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    agent = Agent(emits_extension=False, held_back=True)
    async with behind_proxy(agent, url, evaluate=False) as proxy:
        with proxy.control.bus.listen(EventFilter(frozenset({"turn.closed"}))) as events:
            async with CaptureClient(proxy.url) as client:
                await client.send("Is the kettle in stock?")
            await events.news()  # the turn is stored
        assert await asyncio.to_thread(queued, url) == []
        await asyncio.to_thread(agent.provider.force_flush)
        assert await proxy.flush(PATIENCE_S) == {"pending": 0, "open": 0}
        (turn,) = await proxy.turns()
        assert called(turn) == CALLED
        assert await asyncio.to_thread(queued, url) == [[turn["turn_id"]]]


async def test_spans_after_a_worker_has_scored_make_a_turn_pending_again(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_database()
    agent = Agent(emits_extension=False, held_back=True)
    async with behind_proxy(agent, url, evaluate=False, expect_traces=False) as proxy:
        first = await one_turn(proxy)
        assert isinstance(proxy.control.store, PostgresStore)
        worker = JobScorer(proxy.control.store, WorkerAgents(proxy.control.store, WorkerOptions(store=url), {}))
        assert await worker.score([first["turn_id"]]) == 1
        outdated = await proxy.control.store.work.turns([first["turn_id"]])
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
