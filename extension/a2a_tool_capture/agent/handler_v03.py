"""The request handler for a2a-sdk 0.3, whose types have other names and whose contexts may be missing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from a2a.server.agent_execution import AgentExecutor
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import PushNotificationSender, TaskStore
from a2a.types import AgentCard, Message, Task

from ..recorder import ToolCallRecorder
from ..spec import URI
from .executor import CapturingExecutor, declare_tool_calls
from .filtering import without_tool_calls

_Base: Any = DefaultRequestHandler
"""Has the methods of 0.3; a type checker sees those of the installed version."""


class CapturingRequestHandlerV03(_Base):  # type: ignore[misc]  # see `_Base`
    """The SDK's request handler for an agent whose tool calls `recorder` records; see `handler`.

    It declares the extension on `agent_card`, which must also be passed to the application. Webhooks receive no
    calls.
    """

    def __init__(
        self,
        agent_executor: AgentExecutor,
        task_store: TaskStore,
        agent_card: AgentCard,
        *,
        recorder: ToolCallRecorder,
        push_sender: PushNotificationSender | None = None,
        **options: Any,
    ) -> None:
        """`options` are passed to the SDK's handler."""
        self._enabled = recorder.enabled
        if recorder.enabled:
            declare_tool_calls(agent_card)
        super().__init__(
            CapturingExecutor(agent_executor, recorder),
            task_store,
            push_sender=push_sender and _SilentPushSender(push_sender),
            **options,
        )

    def _shows_calls(self, context: Any) -> bool:
        return self._enabled and context is not None and URI in context.requested_extensions

    async def on_get_task(self, params: Any, context: Any = None) -> Task | None:
        task: Task | None = self._answer(await super().on_get_task(params, context), context)
        return task

    async def on_cancel_task(self, params: Any, context: Any = None) -> Task | None:
        task: Task | None = self._answer(await super().on_cancel_task(params, context), context)
        return task

    async def on_message_send(self, params: Any, context: Any = None) -> Task | Message:
        answer: Task | Message = self._answer(await super().on_message_send(params, context), context)
        return answer

    async def on_message_send_stream(self, params: Any, context: Any = None) -> AsyncGenerator[Event]:
        async with aclosing(super().on_message_send_stream(params, context)) as events:
            async for event in events:
                if (shown := self._answer(event, context)) is not None:
                    yield shown

    async def on_resubscribe_to_task(self, params: Any, context: Any = None) -> AsyncGenerator[Event]:
        async with aclosing(super().on_resubscribe_to_task(params, context)) as events:
            async for event in events:
                if (shown := self._answer(event, context)) is not None:
                    yield shown

    def _answer(self, event: Any, context: Any) -> Any:
        return event if event is None or self._shows_calls(context) else without_tool_calls(event)


class _SilentPushSender(PushNotificationSender):
    def __init__(self, sender: PushNotificationSender) -> None:
        self._sender: Any = sender

    async def send_notification(self, task: Any) -> None:  # type: ignore[override]  # as in 0.3
        await self._sender.send_notification(without_tool_calls(task))
