"""Pydantic AI's page with a tool that needs the user's approval, and the scripted model for it.

fasta2a gives an agent no results of deferred tools: the worker does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fasta2a.pydantic_ai import AgentWorker, worker_lifespan
from pydantic import TypeAdapter
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage
from pydanticai import PAGE, model
from pydanticai import REPLACED as AS_SHOWN

__all__ = ["PAGE", "REPLACED", "DeferredToolRequests", "model"]

REPLACED = {
    **AS_SHOWN,
    '"orders", ': '"orders", output_type=[str, DeferredToolRequests], ',
    "@agent.tool_plain\ndef": "@agent.tool_plain(requires_approval=True)\ndef",
    "app = agent_to_a2a(agent,": "app = agent_to_a2a(agent, lifespan=lambda app: lifespan(app, agent),",
}


class ApprovingWorker(AgentWorker[Any, Any]):
    results: DeferredToolResults | None = None

    def build_message_history(self, history: list[Any]) -> list[ModelMessage]:
        part = history[-1]["parts"][0]
        self.results = TypeAdapter(DeferredToolResults).validate_python(part["data"]) if "data" in part else None
        return [] if self.results else super().build_message_history(history)

    async def _run_agent(
        self, task_id: str, context_id: str, artifact_id: str, message_history: list[ModelMessage]
    ) -> tuple[Any, bool]:
        return await self.agent.run(message_history=message_history, deferred_tool_results=self.results), False


@asynccontextmanager
async def lifespan(app: Any, agent: Any) -> AsyncIterator[None]:
    worker = ApprovingWorker(agent=agent, broker=app.task_manager.broker, storage=app.task_manager.storage)
    async with worker_lifespan(app, worker, agent):
        yield
