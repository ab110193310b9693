"""Answers A2A messages with an agent that is not an A2A server; its tool calls travel in the extension."""

from __future__ import annotations

import asyncio
import logging

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a_tool_capture import ToolCall, ToolCallRecorder, reconcile
from a2a_tool_capture.connector import recorder as automatic
from a2a_tool_capture.json_values import plain_text
from a2a_tool_capture.recording import CallRecording
from tool_call_evaluators.evaluator import FAILURES

from .agent_spans import TurnSpans, spans_of_turn
from .conversations import AgentAnswer, AgentConversations, AnswerError
from .loading import failure

logger = logging.getLogger(__name__)


class ConnectedAgent(AgentExecutor):
    """A task for each message: completed with one artifact, or failed with what went wrong.

    Its calls are those that the agent returns, those that `a2a_tool_capture.connector.recorder` saw meanwhile, and
    those in spans, each once; they take precedence in this order.
    """

    def __init__(self, conversations: AgentConversations, recorder: ToolCallRecorder, timeout_s: float) -> None:
        self._conversations = conversations
        self._recorder = recorder
        self._timeout_s = timeout_s

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task_id, context_id = context.message, context.task_id, context.context_id
        if message is None or task_id is None or context_id is None:
            raise ValueError("a request without a message")
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work()
        answer = await self._answer(context_id, context.get_user_input())
        if isinstance(answer, str):
            await updater.failed(new_text_message(answer, context_id=context_id, task_id=task_id))
        else:
            await updater.add_artifact([new_text_part(plain_text(answer.text))], name="answer")
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()

    async def _answer(self, context_id: str, text: str) -> AgentAnswer | str:
        """The answer, or why it failed; its calls are recorded in either case."""
        returned: list[ToolCall] = []
        with automatic.request() as seen, spans_of_turn() as traced:
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    answer = await self._conversations.say(context_id, text)
                returned = answer.tool_calls
            except TimeoutError as error:
                return f"no answer within {self._timeout_s:g} s" if limit.expired() else failure(error)
            except AnswerError as error:
                return str(error)
            except FAILURES as error:
                logger.debug("the agent failed", exc_info=error)
                return failure(error)
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                if _is_cancelled():
                    raise
                return failure(error)  # raised by the agent's code
            finally:
                self._record(returned, seen, traced)
        return answer

    def _record(self, calls: list[ToolCall], *others: CallRecording | TurnSpans | None) -> None:
        """Record `calls`, and what `others` have in addition."""
        for other in others:
            calls = reconcile(calls, other.tool_calls if other else []).tool_calls
        for call in calls:
            self._recorder.record(call.name, call.arguments, result=call.result, error=call.error, id=call.id)


def _is_cancelled() -> bool:
    """Whether the current task is to end, as opposed to a CancelledError of the code it runs."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
