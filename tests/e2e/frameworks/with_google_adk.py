"""A google-adk agent with a scripted `BaseLlm` behind ADK's own A2A executor, tools recorded by the decorator."""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncGenerator
from typing import Any

import program
import trip
from a2a_tool_capture import ToolCallRecorder
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


class ScriptedLlm(BaseLlm):
    """Follows the script since the user's last message."""

    model: str = "scripted"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        contents = llm_request.contents
        last = max(place for place, content in enumerate(contents) if _text(content) and content.role == "user")
        answered = sum(content.role == "model" for content in contents[last:])
        parts = [
            types.Part(function_call=types.FunctionCall(id=call.id, name=call.name, args=call.arguments))
            for call in trip.calls_asked_for(_text(contents[last]), answered)
        ]
        yield LlmResponse(content=types.Content(role="model", parts=parts or [types.Part(text=trip.ANSWER)]))


def _text(content: types.Content) -> str:
    return next((part.text for part in content.parts or () if part.text), "")


def _tell_the_model(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str]:
    return {"error": str(error)}


def build(recorder: ToolCallRecorder) -> A2aAgentExecutor:
    agent = LlmAgent(
        name="trips",
        model=ScriptedLlm(),
        tools=[recorder.tool(tool) for tool in trip.TOOLS],
        on_tool_error_callback=_tell_the_model,
    )
    return A2aAgentExecutor(runner=InMemoryRunner(agent=agent, app_name="trips"))


def _with_content() -> None:
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"


warnings.simplefilter("ignore")  # ADK calls its A2A support experimental
program.run(build, {"native": _with_content, "native without content": lambda: None})
