"""What one serving process learns of tasks and callers, and all must know: opt-ins and webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a_tool_capture.recent import RecentKeys

from ..relay.opted_in_tasks import MAX_TASKS, OptedInTasks
from .link import Link

SHARED = frozenset({"opted_in", "webhooks"})
"""The kinds of these messages."""


class SharedOptedInTasks(OptedInTasks):
    """Those of a serving process, which reports what is new, and learns what others report."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def add(self, caller: bytes | None, task_ids: Iterable[str]) -> None:
        new = [task_id for task_id in task_ids if not self.has(caller, task_id)]
        super().add(caller, new)
        if caller is not None and new:
            self._link.send("opted_in", pairs=[[caller.hex(), task_id] for task_id in new])

    def add_webhook(self, task_ids: Iterable[str]) -> None:
        new = [task_id for task_id in task_ids if not self.has_webhook(task_id)]
        super().add_webhook(new)
        if new:
            self._link.send("webhooks", task_ids=new)

    def learn(self, message: dict[str, Any]) -> None:
        """Take what another process reported."""
        for caller, task_id in message.get("pairs", ()):
            super().add(bytes.fromhex(caller), [task_id])
        super().add_webhook(message.get("task_ids", ()))


class OptedInEverywhere:
    """Those of all serving processes, in the main process: for processes that start later."""

    def __init__(self) -> None:
        self._pairs = RecentKeys[tuple[str, str]](MAX_TASKS)
        self._webhooks = RecentKeys[str](MAX_TASKS)

    def learn(self, message: dict[str, Any]) -> None:
        """Take what a process reported."""
        for caller, task_id in message.get("pairs", ()):
            self._pairs.add((caller, task_id))
        for task_id in message.get("task_ids", ()):
            self._webhooks.add(task_id)

    def send_all(self, link: Link) -> None:
        """Send everything to a process that has started."""
        link.send("opted_in", pairs=list(self._pairs))
        link.send("webhooks", task_ids=list(self._webhooks))
