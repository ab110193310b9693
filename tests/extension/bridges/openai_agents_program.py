"""Runs an agent of the real OpenAI Agents SDK with a scripted model; prints what the recorder saw, as JSON.

A program of its own: the SDK's package has the name of this repository's test agents.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.openai_agents import ToolCallProcessor
from a2a_tool_capture.connector import recorder as connector_recorder
from a2a_tool_capture.connector.tracing import ArksimTracingProcessor, extract_tool_calls
from agents import Agent, RunConfig, Runner, function_tool, set_trace_processors, set_tracing_disabled
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.usage import Usage
from bridging import page_example
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


class ScriptedModel(Model):
    """Calls every tool in its first answer, says "done" in its second."""

    def __init__(self, calls: dict[str, str]) -> None:
        self._answers = [
            [
                ResponseFunctionToolCall(type="function_call", call_id=f"c{number}", name=name, arguments=arguments)
                for number, (name, arguments) in enumerate(calls.items())
            ],
            [
                ResponseOutputMessage(
                    id="m",
                    type="message",
                    role="assistant",
                    status="completed",
                    content=[ResponseOutputText(type="output_text", text="done", annotations=[])],
                )
            ],
        ]

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        return ModelResponse(output=self._answers.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


@function_tool
def look_up(order_id: str) -> dict[str, str]:
    return {"order": order_id, "status": "shipped"}


@function_tool(failure_error_function=lambda context, error: "the model reads something else")
def refund(order_id: str) -> str:
    raise PermissionError("not allowed")


@function_tool
async def ship(count: int) -> str:
    await asyncio.sleep(0)
    return "x" * count


async def run(order_id: str, *, content: bool = True) -> Any:
    calls = {
        "look_up": json.dumps({"order_id": order_id}),
        "refund": json.dumps({"order_id": order_id}),
        "ship": '{"count": 2}',
    }
    agent = Agent(name="shop", tools=[look_up, refund, ship], model=ScriptedModel(calls))
    result = await Runner.run(agent, "go", run_config=RunConfig(trace_include_sensitive_data=content))
    assert result.final_output == "done"
    return result


async def run_example() -> list[dict[str, Any]]:
    model = ScriptedModel({"look_up": '{"order_id": "ORD-1"}'})
    shown = page_example("openai-agents", {'"gpt-5.1"': "model"}, model=model)
    with shown["recorder"].request() as recording:
        await Runner.run(shown["agent"], "go")
    return [call.to_dict() for call in recording.tool_calls]


async def main() -> None:
    set_trace_processors([])  # the SDK's own uploads
    report: dict[str, Any] = {"example": await run_example()}
    recorder = ToolCallRecorder()
    set_trace_processors([ToolCallProcessor(recorder)])

    async def request(order_id: str, **options: Any) -> list[dict[str, Any]]:
        with recorder.request():
            await run(order_id, **options)
            return [call.to_dict() for call in recorder.tool_calls]

    first, second = await asyncio.gather(request("ORD-1"), request("ORD-2"))
    hidden = await request("ORD-3", content=False)
    silent = {}
    for disabled in (False, True):
        set_tracing_disabled(disabled)
        with recorder.request() as recording:
            await run("ORD-7")
            silent[str(disabled)] = recording.missing()
    set_tracing_disabled(False)
    report["extracted"] = [call.to_dict() for call in extract_tool_calls(await run("ORD-5"))]
    set_trace_processors([ArksimTracingProcessor()])
    with connector_recorder.request():
        await run("ORD-6")
        report["connector"] = [call.to_dict() for call in connector_recorder.tool_calls]
    report["silent"] = silent
    report |= {"first": first, "second": second, "hidden": hidden}
    print(json.dumps(report))


asyncio.run(main())
