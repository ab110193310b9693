"""Which proxy owns which task, and what other proxies have observed, in a PostgreSQL store that they share.

Observations are as they were on the wire: nothing is redacted in them. They stay until the turns that show them are
stored: if their owner dies before, the next one reads them again. Or until `expire`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

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
        "reader": "TEXT NOT NULL DEFAULT ''",
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
    f" RETURNING {_NOW}, (SELECT min(reported_until) FROM proxies WHERE proxy != :proxy AND proxy IN {_ALIVE}),"
    " (SELECT json_agg(proxy)::text FROM proxies WHERE alive_until <= clock_timestamp())"
)
_CLAIM = (
    "INSERT INTO task_owners (task, owner) SELECT task, :proxy FROM json_array_elements_text(CAST(:tasks AS json))"  # noqa: S608
    " AS task ORDER BY task ON CONFLICT (task) DO UPDATE SET owner ="
    f" CASE WHEN task_owners.owner IN {_ALIVE} THEN task_owners.owner ELSE excluded.owner END RETURNING task, owner"
)
_SEND = (
    "INSERT INTO observations (task, at, content, reader)"
    " SELECT one ->> 0, CAST(one ->> 1 AS float), one ->> 2, one ->> 3"
    " FROM json_array_elements(CAST(:rows AS json)) AS one"
)
_RECEIVE = (
    "UPDATE observations AS o SET reader = :proxy FROM (SELECT number, reader FROM observations JOIN task_owners"
    " USING (task) WHERE owner = :proxy AND reader != :proxy FOR UPDATE OF observations) AS unread"
    " WHERE o.number = unread.number"
    " RETURNING o.at, o.number, o.task, o.content, CASE WHEN unread.reader = '' THEN 0 ELSE 1 END"
)
_STORED = (
    "SELECT turn_id FROM turns WHERE status != 'open'"
    " AND turn_id IN (SELECT json_array_elements_text(CAST(:turns AS json)))"
)
_DONE = (
    "DELETE FROM observations AS o USING json_array_elements(CAST(:rows AS json)) AS one"
    " WHERE o.task = one ->> 0 AND o.at <= CAST(one ->> 1 AS float) AND o.reader = :proxy"
)
_TAKE_OVER = (
    "INSERT INTO task_owners (task, owner) SELECT DISTINCT task, :proxy FROM observations"  # noqa: S608
    " WHERE split_part(task, '@', 2) = :agent AND task NOT IN"
    f" (SELECT task FROM task_owners WHERE owner IN {_ALIVE}) ORDER BY task ON CONFLICT (task) DO UPDATE SET owner ="
    f" CASE WHEN task_owners.owner IN {_ALIVE} THEN task_owners.owner ELSE excluded.owner END"
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


def task_key(agent: str, task_id: str, agent_name: str = "") -> str:
    """What the tables call a task, or a configuration of its webhooks: agents make up ids of any size.

    `agent_name`: which of several agents of a proxy."""
    key = blake2b(f"{agent}\0{task_id}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{key}@{agent_name}" if agent_name else key


class LeftObservation(NamedTuple):
    """An observation that a proxy has left for the owner of its task."""

    at: float
    number: int
    task: str
    content: str
    read_before: int  # 1 if an earlier owner has read it, else 0


class SharedTasks(StoreTable):
    """See the module. `proxy` is an id that no other proxy has, a task its `task_key`; times are the database's."""

    async def beat(self, proxy: str, lease_s: float, reported_until: float) -> tuple[float, float | None, set[str]]:
        """Stay alive for `lease_s`; everything that `proxy` observed until `reported_until` is left for its owner.

        Returns the time of the database, the time until which all other proxies have reported (None without any), and
        the proxies whose lease has ended, but not those that left.
        """
        values = {"proxy": proxy, "lease_s": lease_s, "reported_until": reported_until}
        now, reported, dead = (await self._read(_BEAT, values, list))[0]
        return now, reported, set(json.loads(dead or "[]"))

    async def claim(self, tasks: Collection[str], proxy: str) -> dict[str, str]:
        """The owners of these tasks: `proxy` of those that no living proxy owned before."""
        rows = await self._read(_CLAIM, {"tasks": json.dumps(sorted(tasks)), "proxy": proxy}, list)
        return dict(map(tuple, rows))

    async def send(self, observations: Collection[tuple[str, float, str, str]]) -> None:
        """Leave observations for the owners of their tasks: task, time, JSON, and the owner that knows it already."""
        await self._change(_SEND, {"rows": json.dumps(list(observations))})

    async def receive(self, proxy: str) -> list[LeftObservation]:
        """What `proxy` does not know of the tasks that it owns, in the order of its times."""
        rows = await self._read(_RECEIVE, {"proxy": proxy}, list)
        return sorted(LeftObservation(*row) for row in map(tuple, rows))

    async def stored(self, turn_ids: Collection[str]) -> set[str]:
        """Those of these turns that are stored and closed."""
        return {row[0] for row in await self._read(_STORED, {"turns": json.dumps(list(turn_ids))}, list)}

    async def done(self, proxy: str, shown: Mapping[str, float]) -> None:
        """Delete what `proxy` knows of these tasks up to a time: the turns that show it are stored."""
        await self._change(_DONE, {"proxy": proxy, "rows": json.dumps(list(shown.items()))})

    async def take_over(self, proxy: str, agent_name: str = "") -> None:
        """Own the tasks of this agent that have observations and no living owner."""
        await self._change(_TAKE_OVER, {"proxy": proxy, "agent": agent_name})

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
