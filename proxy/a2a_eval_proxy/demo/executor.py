"""The sample agent's turn: carries out a plan. Its tools are recorded; reporting them is the request handler's work."""

from __future__ import annotations

import re
import uuid

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.recent import Recent

from .planner import Ask, Memory, Plan, make_plan, small_talk
from .tools import Shop

MAX_REMEMBERED = 1000
"""Conversations and open questions kept in memory; the oldest are forgotten first."""


class ShopAgent(AgentExecutor):
    """One shop, many conversations; A2A 1.0 and 0.3 reach it through the same SDK interface."""

    def __init__(self, shop: Shop, recorder: ToolCallRecorder, *, weak: bool = True) -> None:
        self._tools = {name: recorder.tool(tool) for name, tool in shop.tools.items()}
        self._weak = weak
        self._memories: Recent[str, Memory] = Recent(MAX_REMEMBERED)
        self._waiting: Recent[str, Plan] = Recent(MAX_REMEMBERED)
        """Plans that asked the user something, by task id."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task_id, context_id = context.message, context.task_id, context.context_id
        if message is None or task_id is None or context_id is None:
            raise ValueError("a request without a message")
        text = context.get_user_input()
        waiting = self._waiting.pop(task_id, None)
        if waiting is None and (answer := small_talk(text)) is not None:
            await event_queue.enqueue_event(new_text_message(answer, context_id=context_id))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work()
        memory = self._memories.setdefault(context_id, Memory())
        plan = waiting or make_plan(text, memory, self._tools, weak=self._weak)
        question = await self._follow(plan, text if waiting else None, updater)
        if question is None:
            await updater.complete()
        else:
            self._waiting[task_id] = plan
            await updater.requires_input(new_text_message(question, context_id=context_id, task_id=task_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._waiting.pop(context.task_id or "", None)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _follow(self, plan: Plan, received: str | None, updater: TaskUpdater) -> str | None:
        """Carry out `plan` from where it stands. Returns the question it stopped at, None at its end.

        Its texts are one artifact, with a chunk for each sentence. Tools run on the event loop: a query on a local file
        of this size takes microseconds.
        """
        artifact_id, started = str(uuid.uuid4()), False
        try:
            step = plan.send(received)
            while not isinstance(step, Ask):
                for sentence in re.findall(r".+?(?:[.!?]\s+|$)", step):
                    parts = [new_text_part(sentence)]
                    await updater.add_artifact(parts, artifact_id=artifact_id, name="answer", append=started)
                    started = True
                step = next(plan)
        except StopIteration:
            return None
        return step.question
