"""What the framework agents have in common: an a2a-sdk server with or without the extension, with or without traces.

A program prints `listening on URL` and reads a line: flags, and the URL of an OTLP receiver where it exports traces.
A child then prints `ready`, and serves until the next line is read. This repeats: what is imported is imported once.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a_tool_capture import CapturingExecutor, ToolCallRecorder, declare_tool_calls
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.starlette import StarletteInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from starlette.applications import Starlette

Answer = Callable[[str, str], Awaitable[str]]
"""The agent's answer to a text in a conversation (contextId)."""

BuildExecutor = Callable[[ToolCallRecorder], AgentExecutor]


class AnsweringExecutor(AgentExecutor):
    """A framework's agent as an a2a-sdk executor: its answer is the artifact of a completed task."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work()
        text = await self._answer(context.get_user_input(), context.context_id or "")
        await updater.add_artifact([new_text_part(text)])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def run(build: BuildExecutor, instrumentations: Mapping[str, Callable[[], None]]) -> None:
    """The program: `build` makes the executor, after one of `instrumentations` was applied."""
    while True:
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            print(f"listening on {url}", flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            child = os.fork()
            if not child:
                _serve(listener, url, shlex.split(line), build, instrumentations)
                return
        sys.stdin.readline()
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)


def _serve(
    listener: socket.socket,
    url: str,
    flags: list[str],
    build: BuildExecutor,
    instrumentations: Mapping[str, Callable[[], None]],
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--extension", action="store_true", help="declare the extension and send tool calls")
    parser.add_argument("--instrumentation", choices=instrumentations, help="export traces made by it")
    parser.add_argument("--own-traces", action="store_true", help="do not continue the trace of the request")
    parser.add_argument("--receiver", help="URL that traces are exported to")
    arguments = parser.parse_args(flags)
    if arguments.instrumentation:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = arguments.receiver
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=100))
        trace.set_tracer_provider(provider)
        instrumentations[arguments.instrumentation]()
    app = _application(url, build, extension=arguments.extension)
    if arguments.instrumentation and not arguments.own_traces:
        StarletteInstrumentor.instrument_app(app)
    print("ready", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off")).run(sockets=[listener])


def _application(url: str, build: BuildExecutor, *, extension: bool) -> Starlette:
    card = AgentCard(
        name="trips",
        description="Plans trips",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="trip", name="trip", description="Plans a trip", tags=["travel"])],
    )
    recorder = ToolCallRecorder()
    executor = build(recorder)
    if extension:
        declare_tool_calls(card)
        executor = CapturingExecutor(executor, recorder)
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
