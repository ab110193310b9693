"""An a2a-sdk request handler that shows tool calls only to requests that activate the extension."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from a2a.server.agent_execution import AgentExecutor
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import PushNotificationSender, TaskStore
from a2a.types import AgentCard, Message

from ..extension_filter import ExtensionFilter
from ..recorder import ToolCallRecorder
from ..spec import BASE_URI, URI
from . import sdk_compat
from .asgi_gate import activation_refused
from .executor import CapturingExecutor, declare_tool_calls


def without_tool_calls(event: Any) -> Any:
    """`event` as the agent would send it without the extension; the same object if it does not name the extension.

    None for an event about an artifact that exists only for its calls. The given event is not changed, because
    servers share events and stored tasks between clients. A page of ListTasks is filtered task by task.
    """
    if not sdk_compat.contains_text(event, BASE_URI):
        return event
    shown = ExtensionFilter().event(sdk_compat.as_json(event))
    return None if shown is None else sdk_compat.from_json(type(event), shown)


_Handler: Any = DefaultRequestHandler
"""Its methods depend on the installed SDK; those of 0.3 may be called without a context."""


class CapturingRequestHandler(_Handler):  # type: ignore[misc]  # see `_Handler`
    """The SDK's request handler for an agent whose tool calls `recorder` records.

    Wraps `agent_executor` in a `CapturingExecutor` and, if the recorder is enabled, declares the extension on both
    cards. Calls are stored with the task. The handler removes them from every response (send, stream, get, list,
    subscribe, cancel) to a request that does not activate the extension itself, by the header or in its message.

    Webhooks receive calls if the request that registered them activated the extension. This requires a
    `GatedPushConfigStore` as `push_config_store`, read by `push_sender`; with another store webhooks receive none.

    With a2a-sdk 0.3 `agent_card` must also be passed to the application, and webhooks receive no calls.
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
        for card in (agent_card, options.get("extended_agent_card")):
            if card is not None and recorder.enabled:
                declare_tool_calls(card)
        if push_sender is not None:
            push_sender = _GatedPushSender(push_sender, options.get("push_config_store") if recorder.enabled else None)
        cards = () if sdk_compat.LEGACY else (agent_card,)
        executor = CapturingExecutor(agent_executor, recorder)
        super().__init__(executor, task_store, *cards, push_sender=push_sender, **options)

    def _shown(self, answer: Any, context: Any) -> Any:
        """`answer` (None, a message of the SDK or a page of tasks) as the client of this request sees it."""
        asks = self._enabled and context is not None and URI in context.requested_extensions
        return answer if asks or answer is None else without_tool_calls(answer)

    async def _shown_events(self, events: AsyncGenerator[Event], context: Any) -> AsyncGenerator[Event]:
        async with aclosing(events):
            async for event in events:
                if (shown := self._shown(event, context)) is not None:
                    yield shown

    async def on_get_task(self, params: Any, context: Any = None) -> Any:
        return self._shown(await super().on_get_task(params, context), context)

    async def on_list_tasks(self, params: Any, context: Any = None) -> Any:
        return self._shown(await super().on_list_tasks(params, context), context)

    async def on_cancel_task(self, params: Any, context: Any = None) -> Any:
        return self._shown(await super().on_cancel_task(params, context), context)

    async def on_message_send(self, params: Any, context: Any = None) -> Any:
        _activate(params.message, context)
        return self._shown(await super().on_message_send(params, context), context)

    def on_message_send_stream(self, params: Any, context: Any = None) -> AsyncGenerator[Event]:
        _activate(params.message, context)
        return self._shown_events(super().on_message_send_stream(params, context), context)

    def on_subscribe_to_task(self, params: Any, context: Any = None) -> AsyncGenerator[Event]:
        return self._shown_events(super().on_subscribe_to_task(params, context), context)

    def on_resubscribe_to_task(self, params: Any, context: Any = None) -> AsyncGenerator[Event]:
        """`on_subscribe_to_task` in a2a-sdk 0.3."""
        return self._shown_events(super().on_resubscribe_to_task(params, context), context)


def _activate(message: Message, context: Any) -> None:
    """Have a message that lists the extension activate it, as the header does: some clients send no header."""
    if context is not None and URI in sdk_compat.entries(message, "extensions") and not activation_refused.get():
        context.requested_extensions.add(URI)


class _GatedPushSender(PushNotificationSender):
    """Sends tool calls only to webhooks that `store`, if it is a `GatedPushConfigStore`, knows to want them."""

    def __init__(self, sender: PushNotificationSender, store: Any) -> None:
        self._send: Any = sender.send_notification
        self._audience = getattr(store, "audience", None)

    async def send_notification(self, *notification: Any) -> None:
        """`notification` is the task's id and an event; with a2a-sdk 0.3 it is the task."""
        *task_id, event = notification
        shown = without_tool_calls(event)
        if shown is event or self._audience is None:
            if shown is not None:
                await self._send(*task_id, shown)
            return
        with self._audience(asked=True):
            await self._send(*task_id, event)
        if shown is not None:
            with self._audience(asked=False):
                await self._send(*task_id, shown)
