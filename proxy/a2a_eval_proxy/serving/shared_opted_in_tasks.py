"""What one serving process learns of tasks and callers, and all must know: opt-ins and webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..relay.opted_in_tasks import OptedInTasks
from .link import Link

SHARED = frozenset({"opted_in", "webhooks"})
"""The kinds of these messages."""


class SharedOptedInTasks(OptedInTasks):
    """Those of one agent in a serving process, which reports what is new, and learns what others report; or, without a
    `link`, those of all serving processes, for processes that start later."""

    def __init__(self, agent_name: str, link: Link | None = None) -> None:
        super().__init__()
        self._agent_name = agent_name
        self._link = link

    def add(self, caller: bytes | None, task_ids: Iterable[str]) -> None:
        new = [task_id for task_id in task_ids if not self.has(caller, task_id)]
        super().add(caller, new)
        if caller is not None and new and self._link is not None:
            self._link.send("opted_in", agent=self._agent_name, pairs=[[caller.hex(), task_id] for task_id in new])

    def add_webhook(self, task_ids: Iterable[str]) -> None:
        new = [task_id for task_id in task_ids if not self.has_webhook(task_id)]
        super().add_webhook(new)
        if new and self._link is not None:
            self._link.send("webhooks", agent=self._agent_name, task_ids=new)

    def learn(self, message: dict[str, Any]) -> None:
        """Take what a process reported."""
        for caller, task_id in message.get("pairs", ()):
            super().add(bytes.fromhex(caller), [task_id])
        super().add_webhook(message.get("task_ids", ()))

    def tell(self, link: Link) -> None:
        """Send everything to a process that has started."""
        link.send(
            "opted_in", agent=self._agent_name, pairs=[[caller.hex(), task_id] for caller, task_id in self._pairs]
        )
        link.send("webhooks", agent=self._agent_name, task_ids=list(self._with_webhook))


class OptedInByAgent(dict[str, SharedOptedInTasks]):
    """Those of each agent, by its name: they stay when its settings change."""

    def __init__(self, link: Link | None = None) -> None:
        super().__init__()
        self._link = link

    def __missing__(self, agent_name: str) -> SharedOptedInTasks:
        self[agent_name] = missing = SharedOptedInTasks(agent_name, self._link)
        return missing
