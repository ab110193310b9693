"""A real LangChain agent with a scripted model; prints what the recorder saw."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.langchain import ToolCallHandler
from bridging import common, forget, look_up, page_example, refund, request, ship
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, ToolException, tool
from langgraph.types import Command

tries = iter([ConnectionError("try again"), None])


class ScriptedModel(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        answer = AIMessage("done")
        if isinstance(messages[-1], HumanMessage):
            answer.tool_calls = [
                {"id": f"c{number}", "name": name, "args": arguments, "type": "tool_call"}
                for number, (name, arguments) in enumerate(json.loads(str(messages[-1].content)))
            ]
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def flaky(q: str) -> str:
    """Works when it is called again."""
    if (error := next(tries)) is not None:
        raise error
    return q.upper()


@tool
def polite(q: str) -> str:
    """Fails in a way that is reported to the model."""
    raise ToolException(f"no {q} here")


polite.handle_tool_error = True


@tool
def move(to: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Changes the agent's state."""
    return Command(update={"messages": [ToolMessage(f"moved to {to}", tool_call_id=tool_call_id)]})


async def main() -> None:
    recorder = ToolCallRecorder()
    retries = ToolRetryMiddleware(tools=["flaky"], initial_delay=0, jitter=False)
    tools = [look_up, ship, refund, forget, flaky, polite, move]
    agent = create_agent(ScriptedModel(), tools=tools, middleware=[retries]).with_config(
        callbacks=[ToolCallHandler(recorder)]
    )

    async def run(said: str) -> None:
        answer = await agent.ainvoke({"messages": [HumanMessage(said)]})
        assert answer["messages"][-1].content == "done"

    async def run_in_threads(said: str) -> None:
        await asyncio.to_thread(agent.invoke, {"messages": [HumanMessage(said)]})

    shown = page_example("langchain", {'"openai:gpt-5.1"': "model"}, model=ScriptedModel())

    async def run_example(said: str) -> None:
        await shown["agent"].ainvoke({"messages": [HumanMessage(said)]}, {"configurable": {"thread_id": "1"}})

    async def run_tool_alone(said: str) -> None:
        """Without a model there is no id of a call, and the tool's own value comes back."""
        await flaky.ainvoke({"q": "kettle"}, config={"callbacks": [ToolCallHandler(recorder)]})

    order = ("look_up", {"order_id": "ORD-1"})
    report = await common(recorder, run)
    report["example"] = await request(shown["recorder"], run_example, order)
    report["threads"] = await request(recorder, run_in_threads, order, ("look_up", {"order_id": "ORD-2"}))
    report["retried"] = await request(recorder, run, ("flaky", {"q": "kettle"}))
    report["handled"] = await request(recorder, run, ("polite", {"q": "kettle"}))
    report["command"] = await request(recorder, run, ("move", {"to": "Rome"}))
    report["invalid"] = await request(recorder, run, ("ship", {"count": "many"}))
    global tries
    tries = iter([None])
    report["alone"] = await request(recorder, run_tool_alone)
    print(json.dumps(report))


asyncio.run(main())
