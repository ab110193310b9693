"""Reads of an SQLite store: each read has its own connection and runs concurrently with the writer (WAL)."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from ...threads import MOST_WAITING, Begin, BoundedThreads
from ..base import MAX_PAGE_BYTES, StoreFileError, TurnJson
from ..reads import EARLIER_RELEASE, LINKED, LinkedTurn, Order, Rows, StoreReads, TurnPage, of_turn, turn_json
from .file import Identity, found_by, identity, name_locked, of_agents

T = TypeVar("T")

_SILENT = (
    "SELECT turn_id FROM turns WHERE status = 'open' AND heard_at < :before"
    " AND json_extract(body, '$.agent_name') IS :agent_name"
    " AND (:agent_name IS NOT NULL OR json_extract(body, '$.agent') = :agent) ORDER BY heard_at LIMIT :most"
)

_BUSY_S = 10.0  # how long an operation waits for the lock of another process
_ANNOTATED = of_turn("group_concat")


class SqliteReads(StoreReads):
    """See `StoreReads`."""

    shared = False

    _CALLS = "json_array_length(body, '$.tool_calls')"

    _CARD = "json_extract(body, '$.agent_card')"

    _TOO_MUCH = (
        "seq IN (SELECT seq FROM (SELECT seq, sum(length(body) + length(evaluations)) OVER (ORDER BY seq DESC) AS taken"
        " FROM turns) WHERE taken > :max_bytes * (SELECT sum(length(body) + length(evaluations)) FROM turns) /"
        " (SELECT (page_count - freelist_count) * page_size * 1.0"
        " FROM pragma_page_count, pragma_freelist_count, pragma_page_size))"
    )

    def __init__(self, path: str) -> None:
        self._path = path
        self._reads = BoundedThreads("store reads", 4, self._too_many)
        self._searches = BoundedThreads("store searches", 2, self._too_many)  # thousands of turns: others do not wait
        self._changing = threading.Lock()
        """Held by a change while it has the file open, and while another file gets its name."""
        self._changes = BoundedThreads("store changes", 1, self._too_many)  # SQLite makes one at a time

    def _end_threads(self) -> None:
        for threads in (self._reads, self._searches, self._changes):
            threads.end()

    def _too_many(self) -> Exception:
        return StoreFileError(f"store {self._path}: {MOST_WAITING} operations wait for it already")

    def _met(self, error: sqlite3.Error, file: Identity | None) -> None:
        """Called, in any thread, with each error of SQLite and the file of the read."""

    @contextmanager
    def _reading(self, mode: Literal["ro", "rw"] = "ro") -> Iterator[sqlite3.Connection]:
        """A connection that does not create a missing file. Raises StoreFileError."""
        file = identity(self._path)
        try:
            with self._changing if mode == "rw" else nullcontext(), closing(self._connected(mode)) as connection:
                yield connection
        except OSError as error:
            raise StoreFileError(f"store {self._path}: it cannot be written: {error.strerror}") from error
        except sqlite3.Error as error:
            self._met(error, file)
            done = "read" if mode == "ro" else "written"
            raise StoreFileError(f"store {self._path}: it cannot be {done}: {error}") from error
        except json.JSONDecodeError as error:
            raise StoreFileError(f"store {self._path}: a turn in it is damaged: {error}") from error

    def _connected(self, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
        """One that writes has found the log, which has its name from the file's, before another file gets that name:
        it would write the log of the new file into the old one."""
        with name_locked(self._path) if mode == "rw" else nullcontext():
            connection = sqlite3.connect(f"file:{quote(self._path)}?mode={mode}", uri=True, timeout=_BUSY_S)
            try:
                if mode == "rw":
                    connection.execute("PRAGMA schema_version")
            except sqlite3.Error:
                connection.close()
                raise
            return connection

    async def _read(
        self, statement: str, values: dict[str, Any], decode: Callable[[Rows], T], threads: BoundedThreads | None = None
    ) -> T:
        def read(begin: Begin) -> T:
            begin()
            with self._reading() as connection:
                return decode(connection.execute(statement, values))

        return await (threads or self._reads).run(read)

    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        def change(begin: Begin) -> int:
            with self._reading("rw") as connection, connection:
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("BEGIN IMMEDIATE")  # waits for the lock
                begin()
                return connection.execute(statement, values).rowcount

        return await self._changes.run(change)

    async def _fill(self, page: TurnPage, conditions: str, values: dict[str, Any], order: Order = "ASC") -> int | None:
        def decode(rows: Rows) -> int | None:
            for row in rows:
                if page.full:
                    return page.last
                page.add(*row)
            return None

        for column in ("conversation_id", "task_id"):
            if column in values:  # the plus keeps SQLite from following the index of runs
                agents = (":agent", EARLIER_RELEASE) if column == "task_id" else ()
                conditions = f"seq IN ({found_by(column, *agents)}) AND +({conditions})"
        statement = (
            f"SELECT seq, status, body, evaluations, {_ANNOTATED} FROM turns WHERE {conditions}"  # noqa: S608  # fixed texts
            f" ORDER BY seq {order} LIMIT :rows"
        )
        values = {**values, "rows": -1 if page.content else page.limit + 1}
        return await self._read(statement, values, decode, self._searches if page.content else None)

    def _of_agents(self, *names: str) -> str:
        return of_agents(*names)

    def _has_status(self, status: str) -> str:
        """A few turns are open or pending; by the condition alone, SQLite reads all."""
        condition = super()._has_status(status)
        return condition if status == "done" else f"seq IN (SELECT seq FROM turns WHERE {condition})"  # noqa: S608  # fixed texts

    def _like(self, column: str, parameter: str) -> str:
        return f"{column} LIKE :{parameter} ESCAPE '!'"

    def _among(self, column: str, parameter: str) -> str:
        """The plus keeps the order of `seq`: by the index, the turns of all cases would have to be sorted."""
        return f"+{column} IN ({self._listed(parameter)})"

    def _listed(self, parameter: str) -> str:
        return f"SELECT value FROM json_each(:{parameter})"  # noqa: S608  # fixed texts

    def _found_by(self, column: str) -> str:
        return found_by(column)

    async def _linked(self, selected: str, values: dict[str, Any]) -> list[LinkedTurn]:
        def decode(rows: Rows) -> list[LinkedTurn]:
            found: list[LinkedTurn] = []
            size = 0
            for row in rows:
                if size > MAX_PAGE_BYTES:
                    break
                size += len(row[2]) + len(row[3])
                found.append(LinkedTurn.of(*row))
            return found

        return await self._read(f"SELECT {LINKED} FROM turns WHERE seq IN ({selected}) ORDER BY seq", values, decode)  # noqa: S608  # fixed texts

    async def take_over(self, silent_s: float, most: int, agent_name: str | None, agent: str) -> list[TurnJson]:
        owner = {"agent_name": agent_name, "agent": agent}
        return await self._changes.run(lambda begin: self._take_over(silent_s, most, owner, begin))

    def _take_over(self, silent_s: float, most: int, owner: dict[str, str | None], begin: Begin) -> list[TurnJson]:
        begin()
        now = int(time.time())
        values = {"before": now - silent_s, "most": most, "now": now, **owner}
        with self._reading("rw") as connection:
            if connection.execute(_SILENT, {**values, "most": 1}).fetchone() is None:
                return []  # without the lock that a write needs
            with connection:
                rows = connection.execute(
                    f"UPDATE turns SET heard_at = :now WHERE turn_id IN ({_SILENT}) RETURNING body",  # noqa: S608  # fixed texts
                    values,
                ).fetchall()
        return [turn_json("open", body, "[]") for (body,) in rows]
