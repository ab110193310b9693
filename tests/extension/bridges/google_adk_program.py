"""A real google-adk agent with a scripted model; prints what the recorder saw."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.google_adk import ToolCallPlugin
from bridging import common, example, forget, look_up, refund, request, ship
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import LongRunningFunctionTool
from google.genai.types import Content, FunctionCall, Part


class ScriptedModel(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = llm_request.contents[-1].parts[0].text
        parts = [Part(text="done")]
        if said and said.startswith("["):
            parts = [
                Part(function_call=FunctionCall(id=f"c{number}", name=name, args=arguments))
                for number, (name, arguments) in enumerate(json.loads(said))
            ]
        yield LlmResponse(content=Content(role="model", parts=parts))


def apologise(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, str] | None:
    return {"status": "sorry"} if tool.name == "excused" else None


def excused() -> str:
    """Fails, and a callback answers in its place."""
    raise PermissionError("not today")


def give_back(value: str) -> dict[str, Any]:
    """Returns the JSON object in its argument."""
    given: dict[str, Any] = json.loads(value)
    return given


def ask_a_human() -> None:
    """Answers some other day."""


async def main() -> None:
    recorder = ToolCallRecorder()
    tools = [look_up, ship, refund, forget, excused, give_back, LongRunningFunctionTool(ask_a_human)]
    agent = LlmAgent(
        name="orders", model=ScriptedModel(model="scripted"), tools=tools, on_tool_error_callback=apologise
    )
    runner = InMemoryRunner(agent, app_name="orders", plugins=[ToolCallPlugin(recorder)])

    async def drive(runner: InMemoryRunner, said: str) -> None:
        session = await runner.session_service.create_session(app_name="orders", user_id="u")
        message = Content(role="user", parts=[Part(text=said)])
        async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            pass

    async def run(said: str) -> None:
        await drive(runner, said)

    shown = example("ToolCallPlugin", model=ScriptedModel(model="scripted"))

    async def run_example(said: str) -> None:
        await drive(shown["runner"], said)

    report = await common(recorder, run)
    report["example"] = await request(shown["recorder"], run_example, ("look_up", {"order_id": "ORD-1"}))
    report["handled"] = await request(recorder, run, ("excused", {}))
    for returned in ('{"error": "fully booked"}', '{"result": "room 7"}', '{"rooms": 7}'):
        report[f"returned {returned}"] = await request(recorder, run, ("give_back", {"value": returned}))
    report["pending"] = await request(recorder, run, ("ask_a_human", {}))
    print(json.dumps(report))


asyncio.run(main())
