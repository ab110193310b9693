"""A pydantic-ai agent with a `FunctionModel`, its native instrumentation, and calls recorded under the model's ids."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import program
import trip
from a2a_tool_capture import ToolCallRecorder
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Follows the script since the user's last message."""
    request, answered = "", 0
    for message in messages:
        if isinstance(message, ModelResponse):
            answered += 1
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                request, answered = str(part.content), 0
    calls = trip.calls_asked_for(request, answered)
    if not calls:
        return ModelResponse(parts=[TextPart(trip.ANSWER)])
    return ModelResponse(parts=[ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in calls])


def build(recorder: ToolCallRecorder) -> program.AnsweringExecutor:
    agent = Agent(FunctionModel(model), retries=3)
    histories: defaultdict[str, list[ModelMessage]] = defaultdict(list)

    @agent.tool
    async def get_weather(context: RunContext[None], city: str, units: str) -> str:
        arguments = {"city": city, "units": units}
        with recorder.call("get_weather", arguments, id=context.tool_call_id or "") as call:
            call.result = await trip.get_weather(**arguments)
        return call.result

    @agent.tool
    async def search_flights(context: RunContext[None], query: dict[str, Any], max_results: int) -> dict[str, Any]:
        arguments = {"query": query, "max_results": max_results}
        with recorder.call("search_flights", arguments, id=context.tool_call_id or "") as call:
            call.result = await trip.search_flights(**arguments)
        return call.result

    @agent.tool
    def book_hotel(context: RunContext[None], hotel_id: str, nights: int) -> str:
        arguments = {"hotel_id": hotel_id, "nights": nights}
        try:
            with recorder.call("book_hotel", arguments, id=context.tool_call_id or ""):
                return trip.book_hotel(**arguments)
        except ValueError as error:
            raise ModelRetry(str(error)) from error

    async def answer(text: str, conversation: str) -> str:
        result = await agent.run(text, message_history=histories[conversation])
        histories[conversation] = result.all_messages()
        return result.output

    return program.AnsweringExecutor(answer)


program.run(build, {"native": Agent.instrument_all})
