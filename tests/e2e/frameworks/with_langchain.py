"""A LangChain agent (on LangGraph) with a fake chat model, and tools recorded by the extension's decorator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import program
import trip
from a2a_tool_capture import ToolCallRecorder
from langchain.agents import create_agent
from langchain.agents.middleware import ToolCallRequest, wrap_tool_call
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from openinference.instrumentation.langchain import LangChainInstrumentor as OpenInference
from opentelemetry.instrumentation.langchain import LangchainInstrumentor as OpenLLMetry


class ScriptedChatModel(BaseChatModel):
    """Follows the script since the user's last message."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> ScriptedChatModel:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        last = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
        answered = sum(isinstance(message, AIMessage) for message in messages[last:])
        calls = trip.calls_asked_for(str(messages[last].content), answered)
        asked = [{"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"} for call in calls]
        message = AIMessage(content="" if calls else trip.ANSWER, tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=message)])


@wrap_tool_call
async def tell_the_model(request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
    """Tool errors go to the model, which is LangChain's way to survive them."""
    try:
        return await handler(request)
    except ValueError as error:
        return ToolMessage(content=str(error), tool_call_id=request.tool_call["id"], status="error")


def build(recorder: ToolCallRecorder) -> program.AnsweringExecutor:
    agent = create_agent(
        ScriptedChatModel(),
        tools=[tool(recorder.tool(function)) for function in trip.TOOLS],
        middleware=[tell_the_model],
        checkpointer=InMemorySaver(),
    )

    async def answer(text: str, conversation: str) -> str:
        config = {"configurable": {"thread_id": conversation}}
        state = await agent.ainvoke({"messages": [HumanMessage(text)]}, config)
        return str(state["messages"][-1].content)

    return program.AnsweringExecutor(answer)


def both() -> None:
    """Two instrumentations at once: every call is seen twice."""
    OpenInference().instrument()
    OpenLLMetry().instrument()


program.run(
    build,
    {"openinference": OpenInference().instrument, "openllmetry": OpenLLMetry().instrument, "both": both},
)
