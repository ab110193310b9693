"""The webhooks of clients for which the agent has an address of this proxy.

They outlive restarts, and replicas share them. No API, export or log shows them: a URL may contain a secret.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that a client registered. Times are seconds since the epoch, 0 for never."""

    webhook_id: str = field(repr=False)  # unguessable: whoever knows it may post to the webhook through the proxy
    url: str = field(repr=False)
    asked: int  # 1 if its client requested the extension; 0 otherwise
    registered_at: int
    task_key: str = ""  # the task that it is notified of, as `task_key` has it; "" as long as it is not known
    config_key: str = ""  # the id of the task's configuration; "" as long as it is not known
    ended_at: int = 0  # when the task ended, or the agent refused the webhook
    agent_name: str = ""  # which of several agents has it

    @property
    def task_ended(self) -> bool:
        """Whether its task is known, and has ended."""
        return bool(self.task_key and self.ended_at)


_COLUMNS = [one.name for one in fields(Webhook)]

WEBHOOKS = {
    **dict.fromkeys(_COLUMNS, "TEXT NOT NULL"),
    "webhook_id": "TEXT PRIMARY KEY",
    **dict.fromkeys(("asked", "registered_at", "ended_at"), "BIGINT NOT NULL"),
    "agent_name": "TEXT NOT NULL DEFAULT ''",
}
"""The columns of the table."""

WEBHOOKS_INDEX = "CREATE INDEX webhooks_task ON webhooks (task_key)"

_INSERT = f"INSERT INTO webhooks ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{one}' for one in _COLUMNS)})"  # noqa: S608  # fixed texts
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM webhooks WHERE webhook_id = :webhook_id"  # noqa: S608  # fixed texts
_SET_TASK = "UPDATE webhooks SET task_key = :task_key, ended_at = 0 WHERE webhook_id = :webhook_id AND task_key = ''"
_SET_CONFIG = "UPDATE webhooks SET config_key = :config_key WHERE webhook_id = :webhook_id"
_END = "UPDATE webhooks SET ended_at = :at WHERE task_key = :task_key AND ended_at = 0"
_END_ONE = "UPDATE webhooks SET ended_at = :at WHERE webhook_id = :webhook_id AND ended_at = 0"
_ACTIVE = "SELECT count(*) FROM webhooks WHERE task_key = :task_key AND ended_at = 0"
_REMOVE = "DELETE FROM webhooks WHERE task_key = :task_key AND config_key = :config_key"
_EXPIRE = (
    "DELETE FROM webhooks WHERE registered_at < :longest OR (registered_at < :registered AND agent_name = :agent_name)"
    " OR (ended_at > 0 AND ended_at < :ended)"
)


class StoreTable:
    """A table in a store. Every method raises StoreError while the store cannot be used; a change is committed when its
    method returns."""

    def __init__(
        self, read: Callable[..., Awaitable[Any]], change: Callable[[str, dict[str, Any]], Awaitable[int]]
    ) -> None:
        """`read` and `change` are those of `StoreReads`."""
        self._read = read
        self._change = change


class WebhookTable(StoreTable):
    """The webhooks in a store. What is learned of them later waits with the turns until it is written; its result need
    not be awaited."""

    def __init__(
        self,
        read: Callable[..., Awaitable[Any]],
        change: Callable[[str, dict[str, Any]], Awaitable[int]],
        later: Callable[[str, dict[str, Any]], Future[None]],
    ) -> None:
        super().__init__(read, change)
        self._later = later

    async def add(self, webhook: Webhook) -> None:
        await self._change(_INSERT, asdict(webhook))

    async def get(self, webhook_id: str) -> Webhook | None:
        rows = await self._read(_SELECT, {"webhook_id": webhook_id}, list)
        return Webhook(**dict(zip(_COLUMNS, rows[0], strict=True))) if rows else None

    def set_task(self, webhook_id: str, task_key: str) -> Future[None]:
        """Set the task of a webhook, where it is not known yet."""
        return self._later(_SET_TASK, {"webhook_id": webhook_id, "task_key": task_key})

    def set_config(self, webhook_id: str, config_key: str) -> Future[None]:
        return self._later(_SET_CONFIG, {"webhook_id": webhook_id, "config_key": config_key})

    def task_ended(self, task_key: str, at: float) -> Future[None]:
        return self._later(_END, {"task_key": task_key, "at": int(at)})

    def end(self, webhook_id: str, at: float) -> Future[None]:
        """No further notifications are expected for this webhook, until one names its task (`set_task`)."""
        return self._later(_END_ONE, {"webhook_id": webhook_id, "at": int(at)})

    async def has_active(self, task_key: str) -> bool:
        """Whether a task that has not ended has a webhook."""
        return bool((await self._read(_ACTIVE, {"task_key": task_key}, list))[0][0])

    def remove(self, task_key: str, config_key: str) -> Future[None]:
        return self._later(_REMOVE, {"task_key": task_key, "config_key": config_key})

    async def expire(self, ended: float, longest: float, registered: float, agent_name: str = "") -> None:
        """Delete webhooks whose task ended before `ended`, those registered before `longest`, and those of this agent
        registered before `registered`."""
        values = {"ended": int(ended), "longest": int(longest), "registered": int(registered)}
        await self._change(_EXPIRE, {**values, "agent_name": agent_name})
