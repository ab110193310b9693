"""What is known of the pieces of traces: parts of messages, wrappers around them, operations of spans; and which spans
are tool calls, and where each instrumentation puts the call: a row a convention.

A new convention is one row. What has no row here may be a call, so it makes the calls of its turn unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

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
from .model import Attributes, Span


class PartRole(StrEnum):
    CALL = "call"
    RESPONSE = "response"
    """What was handed back to the model for a call."""
    CONTENT = "content"
    """Text, reasoning, media, references, state: no call, whatever is in it."""


class PartKind(NamedTuple):
    """`name` is the tool's where the part has none; `members` are the arguments where none holds them as a whole;
    `answer` is the member with the result where call and response are one part."""

    role: PartRole
    name: str = ""
    members: tuple[str, ...] = ()
    answer: str = ""


_CALL, _RESPONSE, _CONTENT = PartRole


def _parts(role: PartRole, *kinds: str) -> dict[str, PartKind]:
    return dict.fromkeys(kinds, PartKind(role))


PARTS: Mapping[str, PartKind] = {
    # OpenAI Chat Completions (openai 3.52)
    **_parts(_CONTENT, "text", "refusal", "image_url", "input_audio", "file", "audio"),
    **_parts(_CALL, "function"),
    # OpenTelemetry semantic-conventions-genai 2b902ce (2026-10), and its instrumentation of the Claude Agent SDK
    **_parts(_CONTENT, "text", "reasoning", "blob", "file", "uri", "compaction", "structured_output", "error"),
    **_parts(_CALL, "tool_call", "server_tool_call"),
    **_parts(_RESPONSE, "tool_call_response", "server_tool_call_response"),
    # pydantic-ai 2
    **_parts(_CONTENT, "thinking", "image-url", "audio-url", "video-url", "document-url", "binary"),
    # OpenAI Responses (openai 3.52)
    **_parts(
        _CONTENT, "input_text", "output_text", "summary_text", "reasoning_text", "input_image", "input_file",
        "item_reference", "computer_screenshot", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
    ),
    **_parts(_CALL, "function_call", "custom_tool_call"),
    "mcp_call": PartKind(_CALL, answer="output"),
    "web_search_call": PartKind(_CALL, "web_search"),
    "file_search_call": PartKind(_CALL, "file_search", ("queries",), "results"),
    "code_interpreter_call": PartKind(_CALL, "code_interpreter", ("code",), "outputs"),
    "image_generation_call": PartKind(_CALL, "image_generation"),
    "computer_call": PartKind(_CALL, "computer"),
    "local_shell_call": PartKind(_CALL, "local_shell"),
    "shell_call": PartKind(_CALL, "shell"),
    "apply_patch_call": PartKind(_CALL, "apply_patch"),
    "tool_search_call": PartKind(_CALL, "tool_search"),
    **_parts(
        _RESPONSE, "function_call_output", "custom_tool_call_output", "computer_call_output", "shell_call_output",
        "local_shell_call_output", "apply_patch_call_output", "tool_search_output",
    ),
    # Anthropic Messages 2023-06-01, with its betas of 2026
    **_parts(
        _CONTENT, "image", "document", "thinking", "redacted_thinking", "search_result", "container_upload",
        "compaction",
    ),
    **_parts(_CALL, "tool_use", "server_tool_use", "mcp_tool_use"),
    **_parts(
        _RESPONSE, "tool_result", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result",
        "code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
    ),
    # langchain-core 1.7
    **_parts(_CONTENT, "reasoning_content", "text-plain", "video", "media", "non_standard_annotation"),
    **_parts(_CALL, "tool_call_chunk", "invalid_tool_call", "server_tool_call_chunk"),
    **_parts(_RESPONSE, "server_tool_result"),
    # Vercel AI SDK 6
    **_parts(_CONTENT, "source", "tool-approval-request", "tool-approval-response", "step-start", "reasoning-file"),
    **_parts(_CALL, "tool-call"),
    **_parts(_RESPONSE, "tool-result", "tool-error"),
    # Microsoft Agent Framework 1.23
    **_parts(_CONTENT, "text_reasoning", "data", "usage", "hosted_file", "hosted_vector_store",
             "function_approval_request", "function_approval_response"),
    **_parts(_RESPONSE, "function_result"),
}  # fmt: skip
"""By the part's `type`."""

KEYED_PARTS: Mapping[str, PartKind] = {
    # Amazon Bedrock Converse 2023-09-30 (strands)
    **_parts(_CONTENT, "image", "document", "video", "audio", "reasoningContent", "guardContent", "cachePoint",
             "citationsContent", "searchResult"),
    **_parts(_CALL, "toolUse"),
    **_parts(_RESPONSE, "toolResult"),
    # Gemini v1beta (google-genai, google-adk)
    **_parts(_CONTENT, "inlineData", "inline_data", "fileData", "file_data"),
    **_parts(_CALL, "functionCall", "function_call", "toolCall"),
    **_parts(_RESPONSE, "functionResponse", "function_response", "toolResponse"),
    **dict.fromkeys(("executableCode", "executable_code"), PartKind(_CALL, "code_execution", ("code", "language"))),
    **dict.fromkeys(("codeExecutionResult", "code_execution_result"), PartKind(_RESPONSE, "code_execution")),
    **_parts(_CALL, "tool_call"),  # OpenInference
    **_parts(_RESPONSE, "tool_call_result"),  # Haystack 2
}  # fmt: skip
"""By a member of the part that holds it; a part with `text` is content, too."""

WRAPPERS = (
    "messages",  # Microsoft Agent 365 SDK 1 ({version, messages}); requests of OpenAI Chat and Anthropic
    "message",  # choices of OpenAI Chat; OpenInference; LangChain's generations
    "message_content",  # OpenInference
    "choices",  # OpenAI Chat
    "candidates",  # Gemini
    "generations",  # LangChain
    "output",  # OpenAI Responses
    "input",  # OpenAI Responses
    "contents",  # Gemini
    "content",  # Gemini
    "kwargs",  # LangChain, with `lc`
    "data",  # LangChain, with `type`
)
"""Members that hold messages; the first that is there is read."""

CONTENT_OF_MESSAGE = ("parts", "content", "contents", "blocks")
"""Members of a message that hold its parts, or its text: OpenTelemetry, OpenAI Chat, OpenInference, llama-index."""

READ_OF_MESSAGE = frozenset(
    {
        "tool_calls",
        "function_call",  # OpenAI Chat, deprecated
        "function_call_name",  # OpenInference
        "function_call_arguments_json",
        "invalid_tool_calls",  # LangChain
        "tool_call_chunks",  # LangChain: again what `tool_calls` has
        "tool_args",  # agno 3: of a tool's message
    }
)
"""Members of a message that name tools or calls, besides its content, all of which are read or repeat others."""

DEFINITIONS = frozenset({"tools", "functions", "tool_choice", "tool_config", "toolConfig"})
"""Members of requests, responses and parts that say which tools there are."""

MESSAGE_TYPES = frozenset(
    {
        "message",  # OpenAI Responses
        *("human", "ai", "AIMessageChunk", "system", "tool", "function", "chat", "constructor"),  # LangChain
        *("user", "assistant", "developer"),  # Claude Agent SDK; the type says the role
    }
)
"""Types that are messages, not parts; `constructor` is the serialisation around one."""

SPEAKS_OF_TOOLS = re.compile(r"tool|func|call|action|invo[ck]|command|plugin|skill|mcp", re.IGNORECASE).search
"""What is of an unknown kind and has such a word in its name may be a call."""

CALLS_TOOLS = re.compile(r"(?<!malformed.)(tool.?(call|use)|function.?call)|pause_turn", re.IGNORECASE).search
"""Reasons for which a model stopped: it asked for a tool, or waits for one that its provider runs."""


class SpanRole(StrEnum):
    TOOL = "tool"
    AGENT = "agent"
    """A run of an agent."""
    MODEL = "model"
    """A call of a model."""
    OTHER = "other"
    """A step in between, and what is neither."""


def _operations(tools: str = "", agents: str = "", models: str = "", others: str = "") -> dict[str, SpanRole]:
    roles = zip(SpanRole, (tools, agents, models, others), strict=True)
    return {name.casefold(): role for role, names in roles for name in names.split()}


OPERATIONS: Mapping[str, Mapping[str, SpanRole]] = {
    "gen_ai.operation.name": {  # OpenTelemetry semantic-conventions-genai 2b902ce
        **_operations(
            tools="execute_tool",
            agents="invoke_agent",
            models="chat generate_content text_completion fetch_response",
            others="create_agent invoke_workflow plan retrieval embeddings search_memory create_memory update_memory "
            "upsert_memory delete_memory create_memory_store delete_memory_store",
        ),
        # OpenLLMetry for LangGraph, LangSmith, strands, Microsoft Agent 365
        **_operations(others="execute_task chain execute_event_loop_cycle output_messages"),
    },
    "openinference.span.kind": _operations(  # openinference-semantic-conventions 0.1.42
        "TOOL", "AGENT", "LLM", "CHAIN RETRIEVER RERANKER EMBEDDING GUARDRAIL EVALUATOR PROMPT"
    ),
    "traceloop.span.kind": _operations(
        "tool", "agent", "", "workflow task"
    ),  # opentelemetry-semantic-conventions-ai 0.5
    "langsmith.span.kind": _operations("tool", "", "llm", "chain retriever embedding prompt parser"),
    "langfuse.observation.type": _operations(
        "tool", "agent", "generation", "span event chain retriever embedding evaluator guardrail"
    ),
    "ai.operationId": _operations(  # Vercel AI SDK 6
        "ai.toolCall",
        "",
        "ai.generateText ai.generateText.doGenerate ai.streamText ai.streamText.doStream ai.generateObject "
        "ai.generateObject.doGenerate ai.streamObject ai.streamObject.doStream",
        "ai.embed ai.embed.doEmbed ai.embedMany ai.embedMany.doEmbed ai.rerank ai.rerank.doRerank ai.generateSpeech "
        "ai.transcribe ai.generateImage ai.stream.firstChunk ai.stream.finish",
    ),
    "mcp.method.name": _operations(  # MCP 2025-11-25 and the draft after it
        "tools/call",
        "",
        "",
        "initialize ping tools/list resources/list resources/read resources/templates/list resources/subscribe "
        "resources/unsubscribe prompts/list prompts/get completion/complete logging/setLevel sampling/createMessage "
        "elicitation/create roots/list server/discover tasks/get tasks/list tasks/result tasks/cancel "
        "notifications/initialized notifications/cancelled notifications/progress notifications/message "
        "notifications/tools/list_changed notifications/prompts/list_changed notifications/resources/list_changed "
        "notifications/resources/updated notifications/roots/list_changed notifications/tasks/status "
        "notifications/elicitation/complete",
    ),
}
"""Attributes that say what a span is, and their values, in lower case."""

TOOL_ATTRIBUTES = ("gen_ai.tool.name", "gen_ai.tool.call.", "tool.name", "tool_call.", "ai.toolCall.")
"""Beginnings of the attributes that only a call of a tool has."""


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

    def marks(self, span: Span) -> bool:
        """Whether the span has one of the markers, whose case is of no account."""
        for attribute, value in self.markers:
            said = span.attributes.get(attribute) if attribute else span.name
            if isinstance(said, str) and (value == ANY or said.casefold() == value.casefold()):
                return True
        return False

    def takes(self, span: Span) -> bool:
        if any(span.attributes.get(attribute) for attribute in self.unless):
            return False
        if not self.scopes or span.scope.startswith(self.scopes):
            return True
        return any(attribute in span.attributes for attribute in self.own)


_EXECUTE_TOOL = ("gen_ai.operation.name", "execute_tool")
_TOOL_KIND = (("openinference.span.kind", "TOOL"),)
_ARGUMENTS, _RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
_OPENINFERENCE_ARGUMENTS: ArgumentPlaces = {"input.value": plain_arguments, "tool.parameters": undeclared_parameters}
_METHOD_NAMES = (("", ".__call__"), ("", ""))
_EXECUTE_TOOL_NAMES = (("execute_tool ", ""), ("", ".tool"))

CONVENTIONS: tuple[Convention, ...] = (
    Convention(
        name="google-adk",  # schema 1 (gcp.vertex.agent.*) and 2, native or through OpenInference
        markers=(_EXECUTE_TOOL, *_TOOL_KIND),
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
        markers=(_EXECUTE_TOOL, *_TOOL_KIND),
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
        markers=(_EXECUTE_TOOL, *_TOOL_KIND),
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
        markers=_TOOL_KIND,
        scopes=("openinference.instrumentation.llama_index",),
        arguments={"input.value": keyword_arguments},
        result={"output.value": llama_index_output},
    ),
    Convention(
        name="openinference-dspy",
        markers=_TOOL_KIND,
        scopes=("openinference.instrumentation.dspy",),
        span_names=_METHOD_NAMES,
        arguments={"input.value": keyword_arguments},
        result={"output.value": encoded_outcome},
        not_tools=frozenset({"finish"}),  # how ReAct answers
    ),
    Convention(
        name="openinference-langchain",
        markers=_TOOL_KIND,
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
        markers=_TOOL_KIND,
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


def recognise(span: Span) -> Convention | None:
    """The convention that makes `span` a tool call; None for any other span."""
    taken = next((row for row in CONVENTIONS if row.marks(span) and row.takes(span)), None)
    return None if taken is None or is_look_alike(span.attributes) else taken


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
