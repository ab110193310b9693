"""A store of webhooks that remembers which of them activated the extension. For a2a-sdk 1.x."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.types import TaskPushNotificationConfig

from ..recent import RecentKeys
from ..spec import URI
from . import sdk_compat

if sdk_compat.LEGACY:
    raise ImportError("stores of a2a-sdk 0.3 do not know the request that registers a webhook", name="a2a")

MAX_WEBHOOKS = 100_000
"""Maximum number of webhooks remembered to receive tool calls; the oldest are forgotten and receive none."""


class GatedPushConfigStore(PushNotificationConfigStore):
    """Wraps a store of webhooks and remembers which were registered by requests that activated the extension.

    They are remembered in this process only: a webhook stored by another process receives no tool calls.
    """

    def __init__(self, store: PushNotificationConfigStore) -> None:
        self._store = store
        self._asked: RecentKeys[tuple[str, str, str]] = RecentKeys(MAX_WEBHOOKS)
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
        self._asked.discard(webhook)
        if URI in context.requested_extensions:
            self._asked.add(webhook)
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


def _webhook(task_id: str, config: TaskPushNotificationConfig) -> tuple[str, str, str]:
    """Key of a webhook: owners may use the same id; an empty id stands for the task's."""
    return task_id, config.id or task_id, config.url
