"""A real Pydantic AI agent with a scripted model; prints what the recorder saw."""

from __future__ import annotations

import asyncio
import json

from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.pydantic_ai import ToolCallCapability
from bridging import common, forget, look_up, page_example, refund, request, ship
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Calls each tool again, under a new id, that asked for another try."""
    last = messages[-1].parts[-1]
    if isinstance(last, UserPromptPart):
        calls = [(f"c{number}", *call) for number, call in enumerate(json.loads(str(last.content)))]
    elif getattr(last, "outcome", "") == "retried":
        calls = [("again", last.tool_name, {"q": "kettle"})]
    else:
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id) for tool_call_id, name, arguments in calls])


def picky(context: RunContext[None], q: str) -> str:
    """Wants to be called twice."""
    if context.retry == 0:
        raise ModelRetry("say it again")
    return q.upper()


def guarded(q: str) -> str:
    """Waits for an approval."""
    raise ApprovalRequired


async def main() -> None:
    recorder = ToolCallRecorder()
    agent = Agent(
        FunctionModel(scripted),
        tools=[look_up, ship, refund, forget, picky, guarded],
        capabilities=[ToolCallCapability(recorder)],
        output_type=[str, DeferredToolRequests],
    )

    async def run(said: str) -> None:
        await agent.run(said)

    async def run_in_threads(said: str) -> None:
        await asyncio.to_thread(agent.run_sync, said)

    replaced = {'"openai:gpt-5.1"': "model", "import uvicorn\n": "", "uvicorn.run(app, port=9999)": ""}
    shown = page_example("pydantic-ai", replaced, model=FunctionModel(scripted))

    async def run_example(said: str) -> None:
        await shown["agent"].run(said)

    report = await common(recorder, run)
    order = ("look_up", {"order_id": "ORD-1"})
    report["example"] = await request(shown["recorder"], run_example, order)
    report["threads"] = await request(recorder, run_in_threads, order, ("look_up", {"order_id": "ORD-2"}))
    report["retried"] = await request(recorder, run, ("picky", {"q": "kettle"}))
    report["invalid"] = await request(recorder, run, ("picky", {"size": "many"}))
    report["pending"] = await request(recorder, run, ("guarded", {"q": "kettle"}))
    print(json.dumps(report))


asyncio.run(main())
