"""The frameworks that are recognised, and the lines of their pages (extension/docs/frameworks)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

PAGES = "extension/docs/frameworks"

_SDK_LINES = (
    "from a2a_tool_capture import ToolCallRecorder",
    "recorder = ToolCallRecorder()",
    "@recorder.tool",
    "serve(Answering(answer), recorder)",
)
_TRACE_PACKAGES = (
    "pip install opentelemetry-distro opentelemetry-exporter-otlp-proto-http opentelemetry-instrumentation-starlette"
)
_SERVER = "with the server of a2a-sdk.md, whose request handler is CapturingRequestHandler(..., recorder=recorder)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One framework: what it is recognised by, and what shows its calls."""

    name: str
    page: str
    """In `PAGES`, without `.md`."""
    scopes: str = ""
    """Pattern of the instrumentation scopes of its spans."""
    card: str = ""
    """Pattern of the agent card as JSON."""
    mark: str = ""
    """Key of the metadata with which it marks tool calls in messages, which --dialects reads; then its dialects."""
    dialects: str = ""
    install: str = ""
    """The command that installs what the extension needs, next to the framework."""
    extension: tuple[str, ...] = _SDK_LINES
    remark: str = ""
    trace_packages: str = _TRACE_PACKAGES
    """The command that installs what makes and sends traces, and continues that of the request; "" for none."""
    instrumentation: str = ""
    """The package that makes its spans; "" where the framework does itself."""
    start: str = "opentelemetry-instrument python agent.py"
    """The command that starts the agent with traces."""
    code: tuple[str, ...] = ()
    """Lines that its traces need."""
    variables: str = ""
    """Of the environment, for its traces to have tool calls with arguments and results."""
    content: tuple[str, ...] = ()
    """Further switches, by which arguments and results are left out."""


_OPENINFERENCE = ("without OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS",)


def _decorated(**facts: Any) -> Framework:
    """One whose tools are decorated, and whose traces are those of OpenInference."""
    return Framework(install="pip install './extension[a2a-sdk]'", remark=_SERVER, content=_OPENINFERENCE, **facts)


A2A_SDK = Framework(
    name="a2a-sdk",
    page="a2a-sdk",
    install="pip install './extension[a2a-sdk]'",
    extension=(
        "from a2a_tool_capture import CapturingRequestHandler",
        "from a2a_tool_capture import ToolCallRecorder",
        "recorder = ToolCallRecorder()",
        "@recorder.tool",
        "handler = CapturingRequestHandler(agent, InMemoryTaskStore(), card, recorder=recorder)",
    ),
    trace_packages="",
)
"""For Python agents of any framework that is not recognised."""

FRAMEWORKS = (
    Framework(
        name="kagent",
        page="kagent",
        scopes=r"kagent",
        card=r"kagent",
        mark="kagent_type",
        dialects="kagent,adk",
        extension=(),
    ),
    Framework(
        name="google-adk",
        page="google-adk",
        scopes=r"gcp\.vertex\.agent|google.?adk",
        card=r"An ADK Agent|An LLM-based agent|\badk\b",
        mark="adk_type",
        dialects="adk",
        install="pip install './extension[google-adk]'",
        extension=(
            "from a2a_tool_capture import ToolCallRecorder",
            "from a2a_tool_capture.bridges.google_adk import to_a2a",
            "app = to_a2a(agent, port=9999, recorder=ToolCallRecorder())",
        ),
        variables="OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental "
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY",
    ),
    Framework(
        name="LangChain",
        page="langchain",
        scopes=r"langchain|langgraph|langsmith",
        card=r"lang(chain|graph|smith)",
        install="pip install './extension[a2a-sdk,langchain]'",
        extension=(
            "from a2a_tool_capture import ToolCallRecorder",
            "from a2a_tool_capture.bridges.langchain import ToolCallHandler",
            "recorder = ToolCallRecorder()",
            "agent = agent.with_config(callbacks=[ToolCallHandler(recorder)])",
            "serve(Answering(answer), recorder)",
        ),
        remark=_SERVER,
        instrumentation="openinference-instrumentation-langchain",
        content=_OPENINFERENCE,
    ),
    Framework(
        name="OpenAI Agents SDK",
        page="openai-agents",
        scopes=r"openai.?agents",
        card=r"openai.agents",
        install="pip install './extension[a2a-sdk,openai-agents]'",
        extension=(
            "from a2a_tool_capture import ToolCallRecorder",
            "from a2a_tool_capture.bridges.openai_agents import ToolCallProcessor",
            "from agents import add_trace_processor",
            "recorder = ToolCallRecorder()",
            "add_trace_processor(ToolCallProcessor(recorder))",
            "serve(Answering(answer), recorder)",
        ),
        remark=_SERVER,
        instrumentation="openinference-instrumentation-openai-agents",
        content=(
            "without RunConfig(trace_include_sensitive_data=False)",
            "without OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=false",
            *_OPENINFERENCE,
        ),
    ),
    Framework(
        name="Pydantic AI",
        page="pydantic-ai",
        scopes=r"pydantic.?ai",
        card=r"pydantic.?ai|fasta2a|An AI agent exposed as an A2A agent",
        install="pip install './extension[pydantic-ai]'",
        extension=(
            "from a2a_tool_capture import ToolCallRecorder",
            "from a2a_tool_capture.bridges.pydantic_ai import ToolCallCapability, agent_to_a2a",
            "recorder = ToolCallRecorder()",
            'agent = Agent("openai:gpt-5.1", name="orders", capabilities=[ToolCallCapability(recorder)])',
            'app = agent_to_a2a(agent, url="http://127.0.0.1:9999", recorder=recorder)',
        ),
        code=("from pydantic_ai import Agent", "Agent.instrument_all()"),
        content=("without InstrumentationSettings(include_content=False)",),
    ),
    Framework(
        name="Strands Agents",
        page="strands",
        scopes=r"strands",
        card=r"strands",
        install="pip install './extension[strands]'",
        extension=(
            "from a2a_tool_capture import ToolCallRecorder",
            "from a2a_tool_capture.bridges.strands import CapturingA2AServer, ToolCallHooks",
            "recorder = ToolCallRecorder()",
            "agent.hooks.add_hook(ToolCallHooks(recorder))",
            "server = CapturingA2AServer(agent_factory=orders, port=9999, recorder=recorder)",
        ),
    ),
    _decorated(
        name="CrewAI",
        page="crewai",
        scopes=r"crew.?ai",
        card=r"crew.?ai",
        instrumentation="openinference-instrumentation-crewai",
    ),
    _decorated(
        name="AutoGen",
        page="autogen",
        scopes=r"autogen",
        card=r"autogen",
        instrumentation="openinference-instrumentation-autogen-agentchat",
    ),
    Framework(
        name="Microsoft Agent Framework",
        page="agent-framework",
        scopes=r"agent.?framework",
        card=r"agent.?framework",
        install="pip install './extension[a2a-sdk]'",
        extension=(*_SDK_LINES[:3], "serve(A2AExecutor(agent), recorder)"),
        remark=_SERVER,
        variables="ENABLE_INSTRUMENTATION=true ENABLE_SENSITIVE_DATA=true",
    ),
    _decorated(
        name="LlamaIndex",
        page="llama-index",
        scopes=r"llama.?index",
        card=r"llama.?index",
        instrumentation="openinference-instrumentation-llama-index",
        code=(
            "from openinference.instrumentation.llama_index import LlamaIndexInstrumentor",
            "LlamaIndexInstrumentor().instrument()",
        ),
    ),
    _decorated(
        name="smolagents",
        page="smolagents",
        scopes=r"smolagents",
        card=r"smolagents",
        instrumentation="openinference-instrumentation-smolagents",
    ),
    Framework(
        name="AG2",
        page="ag2",
        scopes=r"\bag2\b",
        card=r"vnd\.ag2",
        install="pip install './extension[a2a-sdk]'",
        extension=(
            "from a2a_tool_capture import CapturingExecutor, CapturingMiddleware, ToolCallRecorder",
            "from ag2.a2a.executor import AgentExecutor",
            "recorder = ToolCallRecorder()",
            "@recorder.tool",
            "server = A2AServer(agent, executor=CapturingExecutor(AgentExecutor(agent), recorder))",
            "app.add_middleware(CapturingMiddleware, recorder=recorder)",
        ),
        code=(
            "from ag2.middleware import TelemetryMiddleware",
            'middleware=[TelemetryMiddleware(agent_name="orders")],',
        ),
        content=("without TelemetryMiddleware(capture_content=False)",),
    ),
    Framework(
        name="@a2a-js/sdk",
        page="javascript",
        scopes=r"^@opentelemetry/",
        install="npm install ./extension/js",
        extension=(
            'import { ToolCallRecorder, capturing } from "a2a-tool-capture";',
            "const recorder = new ToolCallRecorder();",
            'const lookUp = recorder.tool("look_up", ({ order_id }) => ({ order: order_id, status: "shipped" }));',
            "const requestHandler = new (capturing(DefaultRequestHandler, recorder))"
            "(card, new InMemoryTaskStore(), new Orders());",
        ),
        trace_packages="npm install @opentelemetry/api @opentelemetry/auto-instrumentations-node",
        start="node --require @opentelemetry/auto-instrumentations-node/register agent.mjs",
    ),
    Framework(
        name="an agent without one of the libraries",
        page="by-hand",
        extension=(),
    ),
)
"""In the order in which they are tried."""

CAN_BE_NAMED = (A2A_SDK, *FRAMEWORKS)


def recognised(card: Any, scopes: Sequence[str], marks: Iterable[str]) -> tuple[Framework, str] | None:
    """The framework of an agent, and by what it is recognised; None if by nothing.

    `scopes` are those of its spans, `marks` the keys that mark tool calls in its messages. Spans are better evidence
    than the card, which may have any words.
    """
    for framework in FRAMEWORKS:
        if framework.mark and framework.mark in marks:
            return framework, f"its messages ({framework.mark})"
    for framework in FRAMEWORKS:
        for seen in scopes:
            if framework.scopes and re.search(framework.scopes, seen, re.IGNORECASE):
                return framework, f"its traces ({seen})"
    words = json.dumps(card, ensure_ascii=False)
    for framework in FRAMEWORKS:
        if framework.card and (found := re.search(framework.card, words, re.IGNORECASE)):
            return framework, f"its agent card ({found[0]!r})"
    return None
