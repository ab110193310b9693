"""Which spans are tool calls, and where each instrumentation puts the call: a row a convention.

A span belongs to the first row it bears a marker of, so rows for one library stand above the general ones.
Decided by markers alone: "tool" in a span's name means nothing (LangGraph's `tools`, MCP's `tools/list`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .content import (
    Arguments,
    ToolOutcome,
    adk_response,
    encoded_outcome,
    keyword_arguments,
    llama_index_output,
    mcp_arguments,
    mcp_result,
    plain_arguments,
    plain_outcome,
    run_output,
    text_blocks,
    tool_message,
    traceloop_arguments,
    undeclared_parameters,
)
from .kinds import CALLS_TOOLS, OPERATIONS, SpanRole
from .model import Attributes, Span

ANY = "*"


ArgumentPlaces = Mapping[str, Callable[[Any], Arguments]]
ResultPlaces = Mapping[str, Callable[[Any], ToolOutcome]]
"""An attribute of the span, or `EVENT/ATTRIBUTE` of one of its events, and how to read what is there."""

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Convention:
    """How one instrumentation writes a tool call.

    `markers`: attribute and value, one of which makes a span of `scopes` (prefixes; () is any) a tool call;
    value ANY asks for presence only, attribute "" for the span's name. Names, ids, arguments and results are
    looked for in the order given, and the first that is there decides: content withheld in one place is not
    picked up in another. `span_names` are the text before and after the tool's name in the span's name.
    """

    name: str
    markers: Pairs
    scopes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    """Attributes that only this convention has: they identify it, whatever the span's scope."""
    tool_name: tuple[str, ...] = ("gen_ai.tool.name", "tool.name")
    span_names: Pairs = ()
    call_id: tuple[str, ...] = ("gen_ai.tool.call.id", "tool_call.id", "tool.call_id")
    arguments: ArgumentPlaces = field(default_factory=dict)
    result: ResultPlaces = field(default_factory=dict)
    failed: Pairs = ()
    """Attribute and value that say the call failed where the status does not."""
    withheld: Pairs = ()
    """Attributes and values that together say that content is off, though they look like content."""
    unless: tuple[str, ...] = ()
    """Attributes that say what a span with a marker is otherwise."""
    not_tools: frozenset[str] = frozenset()
    """Tool names that are no calls of a tool."""
    transport: bool = False
    """Carries a call that an agent made, perhaps under a name with a prefix (MCP)."""

    def takes(self, span: Span) -> bool:
        if any(span.attributes.get(attribute) for attribute in self.unless):
            return False
        if not self.scopes or span.scope.startswith(self.scopes):
            return True
        return any(attribute in span.attributes for attribute in self.own)


_EXECUTE_TOOL = ("gen_ai.operation.name", "execute_tool")
_OPENINFERENCE = (("openinference.span.kind", "TOOL"), ("openinference.span.kind", "tool"))
_ARGUMENTS, _RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
_OPENINFERENCE_ARGUMENTS: ArgumentPlaces = {"input.value": plain_arguments, "tool.parameters": undeclared_parameters}
_METHOD_NAMES = (("", ".__call__"), ("", ""))
_EXECUTE_TOOL_NAMES = (("execute_tool ", ""), ("", ".tool"))

CONVENTIONS: tuple[Convention, ...] = (
    Convention(
        name="google-adk",  # schema 1 (gcp.vertex.agent.*) and 2, native or through OpenInference
        markers=(_EXECUTE_TOOL, *_OPENINFERENCE),
        scopes=("gcp.vertex.agent", "openinference.instrumentation.google_adk"),
        own=("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response"),
        call_id=("gen_ai.tool.call.id", "tool.id"),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={
            _ARGUMENTS: plain_arguments,
            "gcp.vertex.agent.tool_call_args": plain_arguments,
            **_OPENINFERENCE_ARGUMENTS,
        },
        result={_RESULT: adk_response, "gcp.vertex.agent.tool_response": adk_response, "output.value": adk_response},
        withheld=(("gcp.vertex.agent.tool_call_args", "{}"), ("gcp.vertex.agent.tool_response", "{}")),
        not_tools=frozenset({"(merged tools)", "(merged)"}),
    ),
    Convention(
        name="strands",  # content in events by default, in attributes with the latest semantic conventions
        markers=(_EXECUTE_TOOL, *_OPENINFERENCE),
        scopes=("strands.telemetry",),
        own=("gen_ai.tool.status",),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={
            _ARGUMENTS: plain_arguments,
            "gen_ai.tool.message/content": plain_arguments,
            **_OPENINFERENCE_ARGUMENTS,
        },
        result={_RESULT: text_blocks, "gen_ai.choice/message": text_blocks, "output.value": plain_outcome},
        failed=(("gen_ai.tool.status", "error"),),
    ),
    Convention(
        name="pydantic-ai",  # formats 1 and 2 (tool_arguments, tool_response) and later
        markers=(_EXECUTE_TOOL, ("", "running tool")),
        scopes=("pydantic-ai",),
        own=("tool_arguments", "tool_response"),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={_ARGUMENTS: plain_arguments, "tool_arguments": plain_arguments, **_OPENINFERENCE_ARGUMENTS},
        result={_RESULT: plain_outcome, "tool_response": plain_outcome, "output.value": plain_outcome},
    ),
    Convention(
        name="smolagents",
        markers=(_EXECUTE_TOOL, *_OPENINFERENCE),
        scopes=(
            "openinference.instrumentation.smolagents",
            "opentelemetry.instrumentation.genai.smolagents",
            "smolagents",
        ),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={_ARGUMENTS: plain_arguments, "input.value": keyword_arguments},
        result={_RESULT: plain_outcome, "output.value": plain_outcome},
        not_tools=frozenset({"final_answer"}),  # how the agent answers
    ),
    Convention(
        name="openinference-llama-index",
        markers=_OPENINFERENCE,
        scopes=("openinference.instrumentation.llama_index",),
        arguments={"input.value": keyword_arguments},
        result={"output.value": llama_index_output},
    ),
    Convention(
        name="openinference-dspy",
        markers=_OPENINFERENCE,
        scopes=("openinference.instrumentation.dspy",),
        span_names=_METHOD_NAMES,
        arguments={"input.value": keyword_arguments},
        result={"output.value": encoded_outcome},
        not_tools=frozenset({"finish"}),  # how ReAct answers
    ),
    Convention(
        name="openinference-langchain",
        markers=_OPENINFERENCE,
        scopes=("openinference.instrumentation.langchain",),
        span_names=(("", ""),),
        arguments=_OPENINFERENCE_ARGUMENTS,
        result={"output.value": tool_message},
    ),
    Convention(
        name="traceloop-mcp",
        markers=(("traceloop.span.kind", "tool"),),
        scopes=("opentelemetry.instrumentation.mcp",),
        tool_name=("gen_ai.tool.name", "traceloop.entity.name"),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={_ARGUMENTS: mcp_arguments, "traceloop.entity.input": mcp_arguments},
        result={_RESULT: mcp_result, "traceloop.entity.output": mcp_result},
        transport=True,
    ),
    Convention(
        name="traceloop-llama-index",  # its tool spans are of kind "task"
        markers=(("tool.arguments", ANY),),
        scopes=("opentelemetry.instrumentation.llamaindex",),
        arguments={"tool.arguments": plain_arguments},
        result={"traceloop.entity.output": llama_index_output},
    ),
    Convention(
        name="traceloop",
        markers=(("traceloop.span.kind", "tool"),),
        tool_name=("gen_ai.tool.name", "traceloop.entity.name"),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={_ARGUMENTS: traceloop_arguments, "traceloop.entity.input": traceloop_arguments},
        result={_RESULT: run_output, "traceloop.entity.output": run_output},
        failed=(("gen_ai.task.status", "failure"),),
    ),
    Convention(
        name="langsmith",
        markers=(("langsmith.span.kind", "tool"),),
        tool_name=("gen_ai.tool.name", "langsmith.trace.name"),
        span_names=(("", ""),),
        arguments={_ARGUMENTS: plain_arguments, "gen_ai.prompt": traceloop_arguments},
        result={_RESULT: run_output, "gen_ai.completion": run_output},
    ),
    Convention(
        name="langfuse",
        markers=(("langfuse.observation.type", "tool"),),
        tool_name=("gen_ai.tool.name",),
        span_names=(("", ""),),
        call_id=("gen_ai.tool.call.id", "langfuse.observation.metadata.tool_call_id"),
        arguments={_ARGUMENTS: plain_arguments, "langfuse.observation.input": keyword_arguments},
        result={_RESULT: plain_outcome, "langfuse.observation.output": tool_message},
        failed=(("langfuse.observation.level", "ERROR"),),
    ),
    Convention(
        name="vercel-ai",
        markers=(("ai.operationId", "ai.toolCall"),),
        tool_name=("ai.toolCall.name",),
        call_id=("ai.toolCall.id",),
        arguments={"ai.toolCall.args": plain_arguments},
        result={"ai.toolCall.result": encoded_outcome},
    ),
    Convention(
        name="mcp",  # OpenTelemetry's semantic conventions for MCP, as the SDKs and servers follow them
        markers=(("mcp.method.name", "tools/call"),),
        span_names=(("tools/call ", ""), ("MCP send tools/call ", "")),
        arguments={_ARGUMENTS: plain_arguments},
        result={_RESULT: mcp_result},
        transport=True,
    ),
    Convention(
        name="gen-ai",  # OpenTelemetry's GenAI semantic conventions: most frameworks' own spans
        markers=(_EXECUTE_TOOL,),
        span_names=_EXECUTE_TOOL_NAMES,
        arguments={_ARGUMENTS: plain_arguments, **_OPENINFERENCE_ARGUMENTS},
        result={_RESULT: plain_outcome, "output.value": plain_outcome},
        not_tools=frozenset({"(merged tools)"}),
    ),
    Convention(
        name="openinference",
        markers=_OPENINFERENCE,
        tool_name=("tool.name", "gen_ai.tool.name"),
        span_names=_METHOD_NAMES,
        arguments={"input.value": keyword_arguments, "tool.parameters": undeclared_parameters},
        result={"output.value": plain_outcome},
    ),
    Convention(
        name="uipath",  # as UiPath's evaluators read spans
        markers=(("tool.name", ANY),),
        unless=tuple(OPERATIONS),
        arguments={"input.value": plain_arguments},
        result={"output.value": plain_outcome},
    ),
)

NOT_CALLS: tuple[tuple[str, str], ...] = (
    ("logfire.msg", "running output function"),  # pydantic-ai: how the agent answers
    ("logfire.span_type", "pending_span"),  # logfire: announces the span that follows
)
"""Attribute and the beginning of its value: spans that bear a marker and are no call."""

_SYNTHESIZED = "tool.synthesized"
"""UiPath's mark of a span that was made up."""

_MARKERS: dict[str, dict[str, list[int]]] = {}
"""Places in `CONVENTIONS` by attribute and value of a marker, in lower case."""

for _place, _convention in enumerate(CONVENTIONS):
    for _attribute, _value in _convention.markers:
        _MARKERS.setdefault(_attribute, {}).setdefault(_value.casefold(), []).append(_place)
_NAMES = _MARKERS.pop("")


def recognise(span: Span) -> Convention | None:
    """The convention that makes `span` a tool call; None for any other span. A few dict lookups."""
    attributes = span.attributes
    found = [*_NAMES.get(span.name, ())]
    for attribute, rows in _MARKERS.items():
        if attribute in attributes:
            value = attributes[attribute]
            if isinstance(value, str):
                found += rows.get(value.casefold(), rows.get(ANY, []))
    taken = next((CONVENTIONS[place] for place in sorted(found) if CONVENTIONS[place].takes(span)), None)
    return None if taken is None or is_look_alike(attributes) else taken


def roles_of(span: Span) -> dict[str, SpanRole | None]:
    """What the span says it is, by the value that says so; None for a value that is not known."""
    said = (
        (roles, span.attributes[attribute]) for attribute, roles in OPERATIONS.items() if attribute in span.attributes
    )
    return {str(value): roles.get(str(value).casefold()) for roles, value in said}


def asks_for_tools(span: Span) -> bool:
    """Whether the model stopped because it asked for a tool."""
    said = (span.attributes.get(attribute) for attribute in _FINISH_REASONS)
    return any(
        CALLS_TOOLS(reason)
        for reasons in said
        for reason in (reasons if isinstance(reasons, list) else [reasons])
        if isinstance(reason, str)
    )


def is_look_alike(attributes: Attributes) -> bool:
    """Whether the span bears a marker and is known to be no call."""
    return bool(attributes.get(_SYNTHESIZED)) or any(
        isinstance(value := attributes.get(attribute), str) and value.startswith(beginning)
        for attribute, beginning in NOT_CALLS
    )


_WORK = ("gen_ai.", "openinference.", "llm.", "traceloop.", "langsmith.", "langfuse.", "ai.", "mcp.", "tool.")
"""Beginnings of the attributes by which tool spans of any convention, and model calls, describe an agent's work."""

_OFFERS = ("gen_ai.tool.definitions", "llm.request.functions.", "llm.tools.", "ai.prompt.tools")
"""Beginnings of the attributes by which a model call shows the tools that the model may ask for."""

_OUTPUTS = ("gen_ai.output.messages", "gen_ai.response.finish_reasons", "gen_ai.completion.", "llm.output_messages.",
            "ai.response.")  # fmt: skip
"""Beginnings of the attributes by which it shows whether the model asked for one."""

_FINISH_REASONS = ("gen_ai.response.finish_reasons", "ai.response.finishReason")

_WITHOUT_TOOLS = ("instrumentation.crewai", "instrumentation.genai.smolagents")
"""Parts of the scopes of instrumentations that show agents, and never all of their tool calls."""


def shows_work(span: Span) -> bool:
    """Whether `span` is of an agent, a model or a tool at all: not of the HTTP around them."""
    return any(attribute.startswith(_WORK) for attribute in span.attributes)


def shows_genai_work(spans: Sequence[Span]) -> bool:
    """Whether one of `spans` is a tool call, an agent's run, or a call of a model that was offered tools.

    Spans of HTTP, of databases, or of model calls without tools say nothing of tools that the agent may have called
    besides, and neither do those of an instrumentation that shows agents without their tools, or operations of which it
    is not known what they are.
    """
    if any(recognise(span) for span in spans):
        return True
    if any(part in span.scope for span in spans for part in _WITHOUT_TOOLS):
        return False
    roles = [roles_of(span) for span in spans]
    if any(None in found.values() for found in roles):
        return False
    return any(SpanRole.AGENT in found.values() for found in roles) or any(
        _has(span, _OFFERS) and _has(span, _OUTPUTS) for span in spans
    )


def _has(span: Span, beginnings: tuple[str, ...]) -> bool:
    return any(attribute.startswith(beginnings) for attribute in span.attributes)
