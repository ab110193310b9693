"""Runs of agents whose tool calls only their traces show."""

from __future__ import annotations

import re
from pathlib import Path

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a_eval_proxy.otlp.receivers import tracing_at
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from agents.scenario_agent import AgentOptions as CardOptions
from agents.scenario_agent import agent_card
from agents.serving import ServerThread
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette
from support.patience import PATIENCE_S
from tool_call_evaluators.report import html_report
from tool_call_evaluators.suite import parse_suite

LATE_MS = 300
"""The agent's spans leave it so much later than its answer."""

SUITE = """\
suite: orders
evaluators: [tool_trajectory]
cases:
  - id: two
    turns:
      - user: ORD-1
        expect: {tool_calls: [{name: look_up, arguments: {order: ORD-1}}]}
      - user: ORD-2
        expect: {tool_calls: [{name: look_up, arguments: {order: ORD-2}}]}
  - id: other
    turns:
      - user: ORD-3
        expect: {tool_calls: [{name: look_up, arguments: {order: ORD-3}, result: shipped}]}
"""


class _Traced(AgentExecutor):
    """Makes one tool call per message, which only a span shows, in the trace of the request."""

    def __init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.call_context is not None
        tracer = self.provider.get_tracer("orders")
        parent = TraceContextTextMapPropagator().extract(context.call_context.state["headers"])
        asked = {"gen_ai.operation.name": "invoke_agent"}
        with tracer.start_as_current_span("invoke_agent", parent, attributes=asked):
            attributes = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "look_up",
                "gen_ai.tool.call.arguments": f'{{"order": "{context.get_user_input()}"}}',
                "gen_ai.tool.call.result": "shipped",
            }
            tracer.start_span("execute_tool look_up", attributes=attributes).end()
        await event_queue.enqueue_event(context.current_task or new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.add_artifact([new_text_part("It is shipped.")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


async def test_spans_that_come_after_the_answer_are_the_calls_of_their_turns(tmp_path: Path) -> None:
    executor = _Traced()

    def app(url: str) -> Starlette:
        card = agent_card(url, CardOptions(declared=False))
        handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
        return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/a2a/jsonrpc")])

    with ServerThread(app) as server:
        async with tracing_at("127.0.0.1:0", PATIENCE_S) as (tracing, receiver):
            exporter = BatchSpanProcessor(OTLPSpanExporter(f"{receiver}/v1/traces"), schedule_delay_millis=LATE_MS)
            executor.provider.add_span_processor(exporter)
            options = AgentOptions(server.url, binding="JSONRPC", concurrency=2)
            result = await run_suite(parse_suite(SUITE), options, str(tmp_path / "turns.db"), "traced", tracing=tracing)
        executor.provider.shutdown()
    assert result.verdict.passed, result.verdict.reasons
    made = {turn["user_text"]: [call["arguments"] for call in turn["tool_calls"]] for turn in result.report.turns}
    assert made == {text: [{"order": text}] for text in ("ORD-1", "ORD-2", "ORD-3")}
    for turn in result.report.turns:
        agent, tool = turn["spans"]
        assert (agent["name"], tool["name"]) == ("invoke_agent", "execute_tool look_up")
        assert tool["parent_span_id"] == agent["span_id"]
        assert (turn["calls_evidence"], bool(turn["trace_id"])) == ("tool_calls", True)
    page = html_report(result.report)
    assert len(re.findall('<tr class="span depth-1">.*?execute_tool look_up', page, re.DOTALL)) == 3
