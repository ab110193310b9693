"""Which tasks a client asked the extension for: their later get, list and subscribe answers keep it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class AskedTasks:
    """A bounded memory of task ids; the one not heard of for longest goes first."""

    def __init__(self, limit: int = 100_000) -> None:
        self._limit = limit
        self._ids: OrderedDict[str, None] = OrderedDict()

    def add(self, task_ids: Iterable[str]) -> None:
        for task_id in task_ids:
            self._ids[task_id] = None
            self._ids.move_to_end(task_id)
            if len(self._ids) > self._limit:
                self._ids.popitem(last=False)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self._ids
