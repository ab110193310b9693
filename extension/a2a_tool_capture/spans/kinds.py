"""What is known of the pieces of traces: parts of messages, wrappers around them, and operations of spans.

A new convention is one row. What has no row here may be a call, so it makes the calls of its turn unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

_OTEL = "OpenTelemetry semantic-conventions-genai 2b902ce (2026-10)"
_CHAT, _RESPONSES = "OpenAI Chat Completions (openai 3.52)", "OpenAI Responses (openai 3.52)"
_ANTHROPIC = "Anthropic Messages 2023-06-01, with its betas of 2026"
_BEDROCK = "Amazon Bedrock Converse 2023-09-30 (strands)"
_GEMINI = "Gemini v1beta (google-genai, google-adk)"
_LANGCHAIN = "langchain-core 1.7"
_VERCEL = "Vercel AI SDK 6"
_OPENINFERENCE = "openinference-semantic-conventions 0.1.42"
_AGENT_FRAMEWORK = "Microsoft Agent Framework 1.23"
_HAYSTACK = "Haystack 2"
_LLAMA_INDEX = "llama-index-core 0.14"


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
    source: str
    name: str = ""
    members: tuple[str, ...] = ()
    answer: str = ""


_CALL, _RESPONSE, _CONTENT = PartRole


def _content(source: str, *kinds: str) -> dict[str, PartKind]:
    return dict.fromkeys(kinds, PartKind(_CONTENT, source))


def _responses(source: str, *kinds: str) -> dict[str, PartKind]:
    return dict.fromkeys(kinds, PartKind(_RESPONSE, source))


def _calls(source: str, *kinds: str) -> dict[str, PartKind]:
    return dict.fromkeys(kinds, PartKind(_CALL, source))


PARTS: Mapping[str, PartKind] = {
    **_content(_CHAT, "text", "refusal", "image_url", "input_audio", "file", "audio"),
    **_calls(_CHAT, "function"),
    **_content(_OTEL, "text", "reasoning", "blob", "file", "uri", "compaction"),
    **_calls(_OTEL, "tool_call", "server_tool_call"),
    **_responses(_OTEL, "tool_call_response", "server_tool_call_response"),
    **_content("OpenTelemetry Claude Agent SDK instrumentation (2026-10)", "structured_output", "error"),
    **_content("pydantic-ai 2", "thinking", "image-url", "audio-url", "video-url", "document-url", "binary"),
    **_content(
        _RESPONSES, "input_text", "output_text", "summary_text", "reasoning_text", "input_image", "input_file",
        "item_reference", "computer_screenshot", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
    ),
    **_calls(_RESPONSES, "function_call", "custom_tool_call"),
    "mcp_call": PartKind(_CALL, _RESPONSES, answer="output"),
    "web_search_call": PartKind(_CALL, _RESPONSES, "web_search"),
    "file_search_call": PartKind(_CALL, _RESPONSES, "file_search", ("queries",), "results"),
    "code_interpreter_call": PartKind(_CALL, _RESPONSES, "code_interpreter", ("code",), "outputs"),
    "image_generation_call": PartKind(_CALL, _RESPONSES, "image_generation"),
    "computer_call": PartKind(_CALL, _RESPONSES, "computer"),
    "local_shell_call": PartKind(_CALL, _RESPONSES, "local_shell"),
    "shell_call": PartKind(_CALL, _RESPONSES, "shell"),
    "apply_patch_call": PartKind(_CALL, _RESPONSES, "apply_patch"),
    "tool_search_call": PartKind(_CALL, _RESPONSES, "tool_search"),
    **_responses(
        _RESPONSES, "function_call_output", "custom_tool_call_output", "computer_call_output", "shell_call_output",
        "local_shell_call_output", "apply_patch_call_output", "tool_search_output",
    ),
    **_content(
        _ANTHROPIC, "image", "document", "thinking", "redacted_thinking", "search_result", "container_upload",
        "compaction",
    ),
    **_calls(_ANTHROPIC, "tool_use", "server_tool_use", "mcp_tool_use"),
    **_responses(
        _ANTHROPIC, "tool_result", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result",
        "code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
    ),
    **_content(_LANGCHAIN, "reasoning_content", "text-plain", "video", "media", "non_standard_annotation"),
    **_calls(_LANGCHAIN, "tool_call_chunk", "invalid_tool_call", "server_tool_call_chunk"),
    **_responses(_LANGCHAIN, "server_tool_result"),
    **_content(
        _VERCEL, "source", "tool-approval-request", "tool-approval-response", "step-start", "reasoning-file"
    ),
    **_calls(_VERCEL, "tool-call"),
    **_responses(_VERCEL, "tool-result", "tool-error"),
    **_responses(_AGENT_FRAMEWORK, "function_result"),
    **_content(_AGENT_FRAMEWORK, "text_reasoning", "data", "usage", "hosted_file", "hosted_vector_store",
               "function_approval_request", "function_approval_response"),
}  # fmt: skip
"""By the part's `type`."""

KEYED_PARTS: Mapping[str, PartKind] = {
    **_content(_BEDROCK, "image", "document", "video", "audio", "reasoningContent", "guardContent", "cachePoint",
               "citationsContent", "searchResult"),
    **_calls(_BEDROCK, "toolUse"),
    **_responses(_BEDROCK, "toolResult"),
    **_content(_GEMINI, "inlineData", "inline_data", "fileData", "file_data"),
    **_calls(_GEMINI, "functionCall", "function_call", "toolCall"),
    **_responses(_GEMINI, "functionResponse", "function_response", "toolResponse"),
    **dict.fromkeys(
        ("executableCode", "executable_code"), PartKind(_CALL, _GEMINI, "code_execution", ("code", "language"))
    ),
    **dict.fromkeys(
        ("codeExecutionResult", "code_execution_result"), PartKind(_RESPONSE, _GEMINI, "code_execution")
    ),
    **_calls(_OPENINFERENCE, "tool_call"),
    **_responses(_HAYSTACK, "tool_call_result"),
}  # fmt: skip
"""By a member of the part that holds it; a part with `text` is content, too."""

WRAPPERS: Mapping[str, str] = {
    "messages": "Microsoft Agent 365 SDK 1 ({version, messages}); requests of OpenAI Chat and Anthropic",
    "message": "choices of OpenAI Chat; OpenInference; LangChain's generations",
    "message_content": _OPENINFERENCE,
    "choices": _CHAT,
    "candidates": _GEMINI,
    "generations": _LANGCHAIN,
    "output": _RESPONSES,
    "input": _RESPONSES,
    "contents": _GEMINI,
    "content": _GEMINI,
    "kwargs": f"{_LANGCHAIN}, with `lc`",
    "data": f"{_LANGCHAIN}, with `type`",
}
"""Members that hold messages, and where it is so; the first that is there is read."""

CONTENT_OF_MESSAGE: Mapping[str, str] = {
    "parts": _OTEL,
    "content": _CHAT,
    "contents": _OPENINFERENCE,
    "blocks": _LLAMA_INDEX,
}
"""Members of a message that hold its parts, or its text."""

READ_OF_MESSAGE: Mapping[str, str] = {
    "tool_calls": _CHAT,
    "function_call": f"{_CHAT}, deprecated",
    "function_call_name": _OPENINFERENCE,
    "function_call_arguments_json": _OPENINFERENCE,
    "invalid_tool_calls": _LANGCHAIN,
    "tool_call_chunks": f"{_LANGCHAIN}: again what `tool_calls` has",
    "tool_args": "agno 3: of a tool's message",
}
"""Members of a message that name tools or calls, besides its content, all of which are read or repeat others."""

DEFINITIONS = frozenset({"tools", "functions", "tool_choice", "tool_config", "toolConfig"})
"""Members of requests, responses and parts that say which tools there are."""

MESSAGE_TYPES: Mapping[str, str] = {
    "message": _RESPONSES,
    "human": _LANGCHAIN,
    "ai": _LANGCHAIN,
    "AIMessageChunk": _LANGCHAIN,
    "system": _LANGCHAIN,
    "tool": _LANGCHAIN,
    "function": _LANGCHAIN,
    "chat": _LANGCHAIN,
    **dict.fromkeys(("user", "assistant", "developer"), "Claude Agent SDK; the type says the role"),
    "constructor": _LANGCHAIN,
}
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
