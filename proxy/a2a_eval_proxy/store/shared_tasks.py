"""Which proxy owns which task, and what other proxies have observed, in a PostgreSQL store that they share.

Observations are as they were on the wire: nothing is redacted in them. They stay until their owner has read them, a
fraction of a second, or until `expire`.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from hashlib import blake2b
from typing import Any

from .webhooks import StoreTable

TABLES: dict[str, dict[str, str]] = {
    "proxies": {
        "proxy": "TEXT PRIMARY KEY",
        "alive_until": "TIMESTAMPTZ NOT NULL",
        "reported_until": "DOUBLE PRECISION",
    },
    "task_owners": {"task": "TEXT PRIMARY KEY", "owner": "TEXT NOT NULL"},
    "observations": {
        "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "task": "TEXT NOT NULL",
        "at": "DOUBLE PRECISION NOT NULL",
        "content": "TEXT NOT NULL",
    },
}

INDEXES = (
    "CREATE INDEX task_owners_owner ON task_owners (owner)",
    "CREATE INDEX observations_task ON observations (task)",
)

_NOW = "extract(epoch FROM clock_timestamp())::float"
_ALIVE = "(SELECT proxy FROM proxies WHERE alive_until > clock_timestamp())"
_BEAT = (
    "INSERT INTO proxies (proxy, alive_until, reported_until)"  # noqa: S608  # fixed texts
    " VALUES (:proxy, clock_timestamp() + make_interval(secs => :lease_s), :reported_until) ON CONFLICT (proxy)"
    " DO UPDATE SET alive_until = excluded.alive_until, reported_until = excluded.reported_until"
    f" RETURNING {_NOW}, (SELECT min(reported_until) FROM proxies WHERE proxy != :proxy AND proxy IN {_ALIVE})"
)
_CLAIM = (
    "INSERT INTO task_owners (task, owner) SELECT task, :proxy FROM json_array_elements_text(CAST(:tasks AS json))"  # noqa: S608
    " AS task ORDER BY task ON CONFLICT (task) DO UPDATE SET owner ="
    f" CASE WHEN task_owners.owner IN {_ALIVE} THEN task_owners.owner ELSE excluded.owner END RETURNING task, owner"
)
_SEND = (
    "INSERT INTO observations (task, at, content) SELECT one ->> 0, CAST(one ->> 1 AS float), one ->> 2"
    " FROM json_array_elements(CAST(:rows AS json)) AS one"
)
_RECEIVE = (
    "DELETE FROM observations USING task_owners WHERE task_owners.task = observations.task AND owner = :proxy"
    " RETURNING number, at, content"
)
_TAKE_OVER = (
    "UPDATE task_owners SET owner = :proxy WHERE task IN (SELECT task FROM observations)"  # noqa: S608
    f" AND owner NOT IN {_ALIVE}"
)
_RELEASE = (
    "DELETE FROM task_owners WHERE owner = :proxy AND task IN (SELECT json_array_elements_text(CAST(:tasks AS json)))"
)
_LEAVE = "DELETE FROM proxies WHERE proxy = :proxy"
_EXPIRE = (
    "DELETE FROM observations WHERE at < extract(epoch FROM clock_timestamp()) - :age_s",
    "DELETE FROM proxies WHERE alive_until < clock_timestamp() - make_interval(secs => :age_s)",
    f"DELETE FROM task_owners WHERE owner NOT IN {_ALIVE} AND :age_s > 0",  # noqa: S608
)


def task_key(agent: str, task_id: str) -> str:
    """What the tables call a task, or a configuration of its webhooks: agents make up ids of any size."""
    return blake2b(f"{agent}\0{task_id}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class SharedTasks(StoreTable):
    """See the module. `proxy` is an id that no other proxy has, a task its `task_key`; times are the database's."""

    async def beat(self, proxy: str, lease_s: float, reported_until: float) -> tuple[float, float | None]:
        """Stay alive for `lease_s`; everything that `proxy` observed until `reported_until` is left for its owner.

        Returns the time of the database, and the time until which all other proxies have reported; None without any.
        """
        values = {"proxy": proxy, "lease_s": lease_s, "reported_until": reported_until}
        now, reported = (await self._read(_BEAT, values, list))[0]
        return now, reported

    async def claim(self, tasks: Collection[str], proxy: str) -> dict[str, str]:
        """The owners of these tasks: `proxy` of those that no living proxy owned before."""
        rows = await self._read(_CLAIM, {"tasks": json.dumps(sorted(tasks)), "proxy": proxy}, list)
        return dict(map(tuple, rows))

    async def send(self, observations: Collection[tuple[str, float, str]]) -> None:
        """Leave observations for the owners of their tasks: task, time, JSON."""
        await self._change(_SEND, {"rows": json.dumps(list(observations))})

    async def receive(self, proxy: str) -> list[tuple[float, str]]:
        """Take the observations of the tasks that `proxy` owns: time and JSON, in the order in which they were left."""
        rows = await self._read(_RECEIVE, {"proxy": proxy}, list)
        return [(at, content) for _, at, content in sorted(map(tuple, rows))]

    async def take_over(self, proxy: str) -> None:
        """Own the tasks of proxies that are no more, for which there are observations."""
        await self._change(_TAKE_OVER, {"proxy": proxy})

    async def release(self, tasks: Collection[str], proxy: str) -> None:
        """Own these tasks no longer: nothing of them is known."""
        await self._change(_RELEASE, {"tasks": json.dumps(sorted(tasks)), "proxy": proxy})

    async def leave(self, proxy: str) -> None:
        """Another proxy may own the tasks of this one."""
        await self._change(_LEAVE, {"proxy": proxy})

    async def expire(self, age_s: float) -> None:
        """Delete what proxies that are no more have left behind."""
        values: dict[str, Any] = {"age_s": age_s}
        for statement in _EXPIRE:
            await self._change(statement, values)
