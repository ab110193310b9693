"""The sample agent's turn: carries out a plan. Its tools are recorded; reporting them is the request handler's work."""

from __future__ import annotations

import re
import uuid
from collections import OrderedDict

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a_tool_capture import ToolCallRecorder

from .planner import Ask, Call, Memory, Plan, Say, make_plan, small_talk
from .tools import Shop, ToolError

MAX_REMEMBERED = 1000
"""Conversations and open questions kept in memory; the oldest are forgotten first."""


class ShopAgent(AgentExecutor):
    """One shop, many conversations; A2A 1.0 and 0.3 reach it through the same SDK interface."""

    def __init__(self, shop: Shop, recorder: ToolCallRecorder, *, weak: bool = True) -> None:
        self._tools = {name: recorder.tool(tool) for name, tool in shop.tools.items()}
        self._weak = weak
        self._memories: OrderedDict[str, Memory] = OrderedDict()
        self._waiting: OrderedDict[str, Plan] = OrderedDict()
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
        reply = _Reply(updater)
        if waiting is None:
            memory = self._memories.setdefault(context_id, Memory())
            plan, received = make_plan(text, memory, weak=self._weak), None
        else:
            plan, received = waiting, text
        question = await self._follow(plan, received, reply)
        if question is None:
            await updater.complete()
        else:
            self._waiting[task_id] = plan
            await updater.requires_input(new_text_message(question, context_id=context_id, task_id=task_id))
        for remembered in (self._memories, self._waiting):
            if len(remembered) > MAX_REMEMBERED:
                remembered.popitem(last=False)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._waiting.pop(context.task_id or "", None)
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _follow(self, plan: Plan, received: str | None, reply: _Reply) -> str | None:
        """Carry out `plan` from where it stands. Returns the question it stopped at, None at its end."""
        try:
            step = plan.send(received)
            while True:
                match step:
                    case Ask(question):
                        return question
                    case Say(text):
                        await reply.say(text)
                        step = next(plan)
                    case Call(tool, arguments):
                        try:
                            # On the event loop: a query on a local file of this size takes microseconds.
                            result = self._tools[tool](**arguments)
                        except ToolError as refusal:
                            step = plan.throw(refusal)
                        else:
                            step = plan.send(result)
        except StopIteration:
            return None


class _Reply:
    """The artifact of one turn: text in chunks."""

    def __init__(self, updater: TaskUpdater) -> None:
        self._updater = updater
        self._artifact_id = str(uuid.uuid4())
        self._started = False

    async def say(self, text: str) -> None:
        """Send `text`, a chunk for each of its sentences."""
        for sentence in re.findall(r".+?(?:[.!?]\s+|$)", text):
            await self._updater.add_artifact(
                [new_text_part(sentence)],
                artifact_id=self._artifact_id,
                name="answer",
                append=self._started,
            )
            self._started = True
