"""An agent of Pydantic AI with the extension whose `refund` needs the user's approval: `pydanticai_approval.py asks`;
with `executes`, it needs none. Prints `listening on URL` and serves until it is ended.

fasta2a gives an agent no results of deferred tools: the worker does.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.pydantic_ai import ToolCallCapability, agent_to_a2a
from fasta2a.pydantic_ai import AgentWorker, worker_lifespan
from pydantic import TypeAdapter
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Refunds the order, and says what the tool has returned."""
    returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if returned:
        return ModelResponse(parts=[TextPart(str(returned[0].content))])
    return ModelResponse(parts=[ToolCallPart("refund", {"order": "A-1"}, tool_call_id="call_0")])


class ApprovingWorker(AgentWorker[Any, Any]):
    results: DeferredToolResults | None = None

    def build_message_history(self, history: list[Any]) -> list[ModelMessage]:
        part = history[-1]["parts"][0]
        self.results = None
        if "data" not in part:
            return super().build_message_history(history)
        self.results = TypeAdapter(DeferredToolResults).validate_python(part["data"])
        return []

    async def _run_agent(
        self, task_id: str, context_id: str, artifact_id: str, message_history: list[ModelMessage]
    ) -> tuple[Any, bool]:
        run = await self.agent.run(message_history=message_history, deferred_tool_results=self.results)
        return run, False


if __name__ == "__main__":
    recorder = ToolCallRecorder()
    agent = Agent(
        FunctionModel(answer),
        name="refunds",
        output_type=[str, DeferredToolRequests],
        capabilities=[ToolCallCapability(recorder)],
    )

    @agent.tool_plain(requires_approval=sys.argv[1] == "asks")
    def refund(order: str) -> str:
        """Refunds an order."""
        return f"refunded {order}"

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        worker = ApprovingWorker(agent=agent, broker=app.task_manager.broker, storage=app.task_manager.storage)
        async with worker_lifespan(app, worker, agent):
            yield

    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    served = agent_to_a2a(agent, url=url, recorder=recorder, lifespan=lifespan)
    print(f"listening on {url}", flush=True)
    uvicorn.Server(uvicorn.Config(served, log_config=None)).run(sockets=[listener])
