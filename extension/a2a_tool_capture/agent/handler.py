"""An a2a-sdk request handler that shows tool calls only to requests that activate the extension."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import PushNotificationConfigStore, PushNotificationSender, TaskStore
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)

from ..recorder import ToolCallRecorder
from ..spec import URI
from .executor import CapturingExecutor, declare_tool_calls
from .filtering import tasks_without_tool_calls, without_tool_calls

if TYPE_CHECKING:
    from a2a.server.tasks.push_notification_sender import PushNotificationEvent

MAX_WEBHOOKS = 100_000
"""Maximum number of webhooks remembered to receive tool calls; the oldest are forgotten and receive none."""


class CapturingRequestHandler(DefaultRequestHandler):
    """The SDK's request handler for an agent whose tool calls `recorder` records.

    Wraps `agent_executor` in a `CapturingExecutor` and, if the recorder is enabled, declares the extension on both
    cards. Calls are stored with the task. The handler removes them from every response (send, stream, get, list,
    subscribe, cancel) to a request that does not activate the extension itself.

    Webhooks receive calls if the request that registered them activated the extension. This requires a
    `GatedPushConfigStore` as `push_config_store`, read by `push_sender`; with another store webhooks receive none.
    """

    def __init__(
        self,
        agent_executor: AgentExecutor,
        task_store: TaskStore,
        agent_card: AgentCard,
        *,
        recorder: ToolCallRecorder,
        push_config_store: PushNotificationConfigStore | None = None,
        push_sender: PushNotificationSender | None = None,
        extended_agent_card: AgentCard | None = None,
        **options: Any,
    ) -> None:
        """`options` are passed to the SDK's handler."""
        self._enabled = recorder.enabled
        for card in (agent_card, extended_agent_card):
            if card is not None and recorder.enabled:
                declare_tool_calls(card)
        super().__init__(
            CapturingExecutor(agent_executor, recorder),
            task_store,
            agent_card,
            push_config_store=push_config_store,
            push_sender=push_sender and _GatedPushSender(push_sender, push_config_store if recorder.enabled else None),
            extended_agent_card=extended_agent_card,
            **options,
        )

    def _shows_calls(self, context: ServerCallContext) -> bool:
        return self._enabled and _asked(context)

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        task: Task | None = await super().on_get_task(params, context)
        return task if task is None or self._shows_calls(context) else without_tool_calls(task)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        page = await super().on_list_tasks(params, context)
        return page if self._shows_calls(context) else tasks_without_tool_calls(page)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        task: Task | None = await super().on_cancel_task(params, context)
        return task if task is None or self._shows_calls(context) else without_tool_calls(task)

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        answer: Task | Message = await super().on_message_send(params, context)
        return answer if self._shows_calls(context) else without_tool_calls(answer)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        async with aclosing(super().on_message_send_stream(params, context)) as events:
            async for event in events:
                shown = event if self._shows_calls(context) else without_tool_calls(event)
                if shown is not None:
                    yield shown

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        async with aclosing(super().on_subscribe_to_task(params, context)) as events:
            async for event in events:
                shown = event if self._shows_calls(context) else without_tool_calls(event)
                if shown is not None:
                    yield shown


class GatedPushConfigStore(PushNotificationConfigStore):
    """Wraps a store of webhooks and remembers which were registered by requests that activated the extension.

    They are remembered in this process only: a webhook stored by another process receives no tool calls.
    """

    def __init__(self, store: PushNotificationConfigStore) -> None:
        self._store = store
        self._asked: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        self._audience: ContextVar[bool | None] = ContextVar("audience", default=None)

    @contextmanager
    def audience(self, *, asked: bool) -> Iterator[None]:
        """In the block, dispatch only to the webhooks that `asked` for tool calls, or only to the others."""
        token = self._audience.set(asked)
        try:
            yield
        finally:
            self._audience.reset(token)

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig | None:
        stored = await self._store.set_info(task_id, notification_config, context)
        webhook = _webhook(task_id, stored or notification_config)
        self._asked.pop(webhook, None)
        if _asked(context):
            self._asked[webhook] = None
            if len(self._asked) > MAX_WEBHOOKS:
                self._asked.popitem(last=False)
        return stored

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        return await self._store.get_info(task_id, context)

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        configs = await self._store.get_info_for_dispatch(task_id)
        audience = self._audience.get()
        if audience is None:
            return configs
        return [config for config in configs if (_webhook(task_id, config) in self._asked) is audience]

    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        await self._store.delete_info(task_id, context, config_id)


class _GatedPushSender(PushNotificationSender):
    def __init__(self, sender: PushNotificationSender, store: PushNotificationConfigStore | None) -> None:
        self._sender = sender
        self._store = store if isinstance(store, GatedPushConfigStore) else None

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        shown = without_tool_calls(event)
        if shown is event:
            await self._sender.send_notification(task_id, event)
            return
        if self._store is None:
            if shown is not None:
                await self._sender.send_notification(task_id, shown)
            return
        with self._store.audience(asked=True):
            await self._sender.send_notification(task_id, event)
        if shown is not None:
            with self._store.audience(asked=False):
                await self._sender.send_notification(task_id, shown)


def _webhook(task_id: str, config: TaskPushNotificationConfig) -> tuple[str, str, str]:
    """Key of a webhook: owners may use the same id; an empty id stands for the task's."""
    return task_id, config.id or task_id, config.url


def _asked(context: ServerCallContext) -> bool:
    return URI in context.requested_extensions
