"""What was observed of tasks (`capture.observations`), in a store: turns are folded from it.

Observations are as they were on the wire: nothing is redacted in them. They stay until the turns that show them have
been closed for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from .webhooks import StoreTable

OBSERVATIONS = {
    "task": "TEXT NOT NULL",
    "agent": "TEXT NOT NULL",
    "at": "DOUBLE PRECISION NOT NULL",
    "content": "TEXT NOT NULL",
    "keep_until": "DOUBLE PRECISION",
}
"""Columns of the table, without its `number`. `at` is the time of the last observation in `content`."""

OBSERVATIONS_INDEXES = (
    "CREATE INDEX observations_task ON observations (task)",
    "CREATE INDEX observations_open ON observations (agent, at) WHERE keep_until IS NULL",
)

PROXIES = {"proxy": "TEXT PRIMARY KEY", "agent": "TEXT NOT NULL", "heard_at": "DOUBLE PRECISION NOT NULL"}
"""Who observes the tasks of an agent: a proxy that stops leaves, one that was killed is not heard of any more."""

_REMEMBERED_S = 7_200.0
"""How long a killed proxy is known as such: longer than observations stay."""

_ROWS = 200
"""Of one statement: a database takes no more than some thousand parameters."""


def task_key(agent: str, task_id: str, agent_name: str = "") -> str:
    """What the tables call a task, or a configuration of its webhooks: agents make up ids of any size.

    `agent_name`: which of several agents of a proxy."""
    key = blake2b(f"{agent}\0{task_id}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{key}@{agent_name}" if agent_name else key


class Observed(NamedTuple):
    """Observations of a task by one proxy: `content` is a JSON text."""

    task: str
    at: float
    content: str


class ObservationTable(StoreTable):
    """The observations of an agent in a store, shared by all proxies on it. Every method raises StoreError while that
    cannot be used.

    A task is its `task_key`; times are seconds since the epoch.
    """

    def __init__(
        self, read: Callable[..., Awaitable[Any]], change: Callable[[str, dict[str, Any]], Awaitable[int]], agent: str
    ) -> None:
        """`agent`: whose observations are added and searched (`Agent.key`)."""
        super().__init__(read, change)
        self.agent = agent

    held_bytes = 0
    """Of memory."""

    async def add(self, rows: Sequence[Observed]) -> None:
        for start in range(0, len(rows), _ROWS):
            part = rows[start : start + _ROWS]
            values = {f"{name}{n}": value for n, row in enumerate(part) for name, value in row._asdict().items()}
            places = ", ".join(f"(:task{n}, :agent, :at{n}, :content{n})" for n in range(len(part)))
            insert = f"INSERT INTO observations (task, agent, at, content) VALUES {places}"  # noqa: S608  # fixed texts
            await self._change(insert, {**values, "agent": self.agent})

    async def of_task(self, task: str) -> list[tuple[int, str]]:
        """The number of each row and its content, in the order in which they were added."""
        statement = "SELECT number, content FROM observations WHERE task = :task ORDER BY number"
        return [(row[0], row[1]) for row in await self._read(statement, {"task": task}, list)]

    async def count(self, task: str) -> int:
        rows = await self._read("SELECT count(*) FROM observations WHERE task = :task", {"task": task}, list)
        return int(rows[0][0])

    async def keep_until(self, task: str, number: int, until: float) -> None:
        """The turns that rows up to this number show are closed: they are deleted after `until`."""
        await self._change(
            "UPDATE observations SET keep_until = :until WHERE task = :task AND number <= :number",
            {"task": task, "number": number, "until": until},
        )

    async def open_tasks(self, before: float) -> list[str]:
        """Tasks with an open turn of which nothing was observed since `before`."""
        statement = (
            "SELECT task FROM observations WHERE agent = :agent AND keep_until IS NULL"
            " GROUP BY task HAVING max(at) < :at"
        )
        return [row[0] for row in await self._read(statement, {"agent": self.agent, "at": before}, list)]

    async def tasks(self) -> list[str]:
        statement = "SELECT DISTINCT task FROM observations WHERE agent = :agent"
        return [row[0] for row in await self._read(statement, {"agent": self.agent}, list)]

    async def expire(self, now: float) -> None:
        await self._change("DELETE FROM observations WHERE keep_until < :now", {"now": now})
        await self._change("DELETE FROM proxies WHERE heard_at < :before", {"before": now - _REMEMBERED_S})

    async def present(self, proxy: str, now: float, silent_s: float) -> dict[str, float]:
        """A proxy is there; returns those that were killed: not heard of for `silent_s`, with when that was last."""
        heard = (
            "INSERT INTO proxies (proxy, agent, heard_at) VALUES (:proxy, :agent, :now)"
            " ON CONFLICT (proxy) DO UPDATE SET heard_at = excluded.heard_at"
        )
        await self._change(heard, {"proxy": proxy, "agent": self.agent, "now": now})
        silent = "SELECT proxy, heard_at FROM proxies WHERE agent = :agent AND heard_at <= :before AND proxy <> :proxy"
        values = {"agent": self.agent, "before": now - silent_s, "proxy": proxy}
        return {row[0]: row[1] for row in await self._read(silent, values, list)}

    async def leave(self, proxy: str) -> None:
        await self._change("DELETE FROM proxies WHERE proxy = :proxy", {"proxy": proxy})
