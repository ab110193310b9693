"""Tool calls of agents on the OpenAI Agents SDK, under the names of arksim: from its tracing, or from a result."""

from __future__ import annotations

from typing import Any

from ..bridges.openai_agents import ToolCallProcessor
from ..models import ToolCall, ToolCallSource
from ..recorder import CallRecording
from . import recorder


class ArksimTracingProcessor(ToolCallProcessor):
    """Records the tool calls of a Python agent that returns only text: `add_trace_processor(ArksimTracingProcessor())`.

    The current turn is found with `contextvars`; the agent passes nothing.
    """

    def __init__(self) -> None:
        super().__init__(recorder)


def extract_tool_calls(result: Any) -> list[ToolCall]:
    """The calls of function tools in a `RunResult` of the SDK, in order, with their outputs."""
    recording = CallRecording()
    for item in result.new_items:
        if item.type == "tool_call_item" and _field(item.raw_item, "type") == "function_call":
            call_id, name, arguments = (_field(item.raw_item, key) for key in ("call_id", "name", "arguments"))
            recording.started(
                name,
                {} if arguments == "" else arguments,  # some models write no arguments so
                id=call_id,
                source=ToolCallSource.OPENAI_AGENTS,
            )
    for item in result.new_items:
        if item.type == "tool_call_output_item" and recording.is_running(_field(item.raw_item, "call_id")):
            recording.finished(_field(item.raw_item, "call_id"), item.output)
    return recording.tool_calls


def _field(item: Any, name: str) -> Any:
    """Items of the SDK are objects, or mappings with the same names."""
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)
