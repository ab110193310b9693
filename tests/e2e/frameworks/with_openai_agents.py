"""An OpenAI Agents SDK agent with a scripted `Model`, and calls recorded by the extension's bridge to its tracing."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import groupby
from typing import Any

import program
import trip
from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.openai_agents import ToolCallProcessor
from agents import Agent, Runner, TResponseInputItem, add_trace_processor, function_tool, set_trace_processors
from agents.items import ModelResponse, TResponseOutputItem
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor as OpenInference
from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor as OpenLLMetry


class ScriptedModel(Model):
    """Follows the script since the user's last message."""

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        *args: Any,
        **options: Any,
    ) -> ModelResponse:
        items: list[Any] = [{"role": "user", "content": input}] if isinstance(input, str) else list(input)
        last = max(place for place, item in enumerate(items) if item.get("role") == "user")
        kinds = groupby(item.get("type") for item in items[last + 1 :])
        answered = sum(kind == "function_call" for kind, _ in kinds)
        calls = trip.calls_asked_for(items[last]["content"], answered)
        output: list[TResponseOutputItem] = [
            ResponseFunctionToolCall(
                type="function_call", call_id=call.id, name=call.name, arguments=json.dumps(call.arguments)
            )
            for call in calls
        ]
        text = ResponseOutputText(type="output_text", text=trip.ANSWER, annotations=[])
        said = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        return ModelResponse(output=output or [said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


def build(recorder: ToolCallRecorder) -> program.AnsweringExecutor:
    add_trace_processor(ToolCallProcessor(recorder))
    tools = [function_tool(tool, strict_mode=False) for tool in trip.TOOLS]
    agent = Agent(name="trips", tools=tools, model=ScriptedModel())
    histories: defaultdict[str, list[TResponseInputItem]] = defaultdict(list)

    async def answer(text: str, conversation: str) -> str:
        result = await Runner.run(agent, [*histories[conversation], {"role": "user", "content": text}])
        histories[conversation] = result.to_input_list()
        return str(result.final_output)

    return program.AnsweringExecutor(answer)


set_trace_processors([])  # the SDK's own uploads
program.run(
    build,
    {
        "openinference": OpenInference().instrument,
        "openllmetry": OpenLLMetry().instrument,
    },
)
