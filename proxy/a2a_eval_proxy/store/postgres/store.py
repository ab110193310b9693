"""Turns in a PostgreSQL database: opened by any number of processes together, written in groups, each in one
transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...settings.store_url import check_postgres, masked_url
from ..base import StoreError, StoreUnreachableError
from ..dialects import POSTGRES
from ..encoding import (
    Add,
    Change,
    Discard,
    EncodedConversation,
    Finish,
    FinishConversations,
    Item,
)
from ..reads import Rows
from ..schema import VERSION, statements, unknown_version
from ..store import Store
from ..write_queue import QueuedWrites
from ..writes import group_statements
from .database import (
    CONNECT_TIMEOUT_S,
    TROUBLE,
    Connection,
    Database,
    changing,
    named,
    passes,
    positional,
    reason,
    refused,
)
from .work import JOBS, WorkStore, queue_jobs

T = TypeVar("T")

logger = logging.getLogger(__name__)


_VERSION_TABLE = "a2a_eval_proxy_version"
_CREATING = 0x6132_6165_7661_6C02  # advisory lock of who creates the tables
_NO_STORE = "the database holds no store; has anything been captured into it?"


def check_url(url: str) -> None:
    """Raises StoreError for what is no URL of a database."""
    try:
        check_postgres(url)
        conninfo_to_dict(url)
    except (ValueError, psycopg.ProgrammingError) as error:
        raise StoreError(f"store {masked_url(url)}: {reason(error)}") from None


def prepare(url: str, *, must_exist: bool = False) -> None:
    """Make the tables of a store in one transaction. What is there stays.

    Raises StoreUnreachableError where the database does not let us in, or cannot make them now; StoreError where it
    (`must_exist`) holds no store, holds one of another version, or something else under the names of our tables.
    """
    name = f"store {masked_url(url)}"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
            _create_tables(connection, must_exist=must_exist)
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from error
    except (psycopg.OperationalError, OSError) as error:
        raise StoreUnreachableError(f"{name}: cannot connect: {reason(error)}") from error
    except psycopg.Error as error:
        problem = f"{name}: its tables cannot be created: {reason(error)}"
        if passes(error):
            raise StoreUnreachableError(problem) from error
        raise StoreError(f"{problem}; give a database of its own") from error


def _create_tables(connection: psycopg.Connection[Any], *, must_exist: bool) -> None:
    found = connection.execute("SELECT to_regclass(%s)", (_VERSION_TABLE,)).fetchone()
    if found is None or found[0] is None:
        if must_exist:
            raise StoreError(_NO_STORE)
        for statement in (*statements(POSTGRES), *JOBS):
            connection.execute(statement.encode())
        connection.execute(f"CREATE TABLE {_VERSION_TABLE} (version_num varchar(32) PRIMARY KEY)")
        connection.execute(f"INSERT INTO {_VERSION_TABLE} VALUES ('{VERSION}')")  # noqa: S608  # fixed texts
    else:
        (version,) = connection.execute(f"SELECT version_num FROM {_VERSION_TABLE}").fetchone() or ("none",)  # noqa: S608
        if version != str(VERSION):
            raise unknown_version(version)


_SHOWN = 100  # characters of an id in a message: agents make up some of them


class PostgresStore(Store):
    """With `for_workers`, each turn that is added as pending is queued for them in the same
    transaction.

    Raises StoreError for what is no URL of a database. Where the database does not let us in it raises
    StoreUnreachableError, where it holds something else, or (with `must_exist`) no store, StoreError; `patient`, it
    leaves that to `start` and tries for as long as it takes. Once open, it outlives a database that goes away for some
    time (`patient`: for any): what is written waits in memory.
    """

    shared = True
    trouble = TROUBLE
    _dialect = POSTGRES

    def __init__(self, url: str, *, must_exist: bool = False, for_workers: bool = False, patient: bool = False) -> None:
        check_url(url)
        self._url = url
        self._must_exist = must_exist
        database = Database(url)
        self._database = database
        QueuedWrites.__init__(self, database.name, patient=patient)
        self.work: WorkStore = WorkStore(database)  # what workers do
        self._for_workers = for_workers
        if patient:
            return
        try:
            self._open_now()
        except StoreError:
            database.close()
            raise

    def close(self, timeout_s: float = 30.0) -> None:
        super().close(timeout_s)
        self._database.close()

    def _describe(self, error: Exception) -> str:
        return reason(error)

    def _open(self) -> None:
        prepare(self._url, must_exist=self._must_exist)

    async def _read(
        self, statement: str, values: dict[str, Any], decode: Callable[[Rows], T], *, search: bool = False
    ) -> T:
        return await asyncio.to_thread(decode, await self._database.rows(named(statement), values))

    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        return await self._database.change(named(statement), values)

    # ── in the writing thread ───────────────────────────────────────────────────────────────────────────

    def _execute(self, statement: str, values: dict[str, Any]) -> int:
        return self._database.submit(changing(named(statement), values)).result()

    def _value(self, statement: str, values: dict[str, Any]) -> Any:
        async def first(connection: Connection) -> Any:
            row = await (await connection.execute(named(statement), values)).fetchone()
            return row[0] if row else None

        return self._database.submit(first).result()

    def _reclaim(self, *, deleted: bool) -> None:
        if deleted:
            try:
                self._database.submit(_vacuum).result()
            except TROUBLE as error:
                logger.info(
                    "store %s: what was deleted is freed in the server's own time: %s", self._name, reason(error)
                )

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        return partial(self._write, group)

    def _write(self, items: list[Item]) -> None:
        """Write them together; where the database refuses one of them, all others."""
        try:
            self._database.submit(partial(_write_all, items, for_workers=self._for_workers)).result()
        except TROUBLE as error:
            if not refused(error):
                raise
            if len(items) > 1:
                for item in items:
                    self._write([item])
            else:
                logger.error("store %s will not take %s: %s", self._name, _described(items[0]), reason(error))


_DESCRIPTIONS = {
    Add: "turn(s)",
    Finish: "the results of turn(s)",
    FinishConversations: "the results of conversation(s)",
    Discard: "the deletion of turn(s)",
}


def _described(item: Item) -> str:
    if isinstance(item, Change):
        return "what was learned of a webhook"
    names = [
        row
        if isinstance(row, str)
        else row.key.conversation_id
        if isinstance(row, EncodedConversation)
        else row.turn_id
        for row in item.rows
    ]
    return f"{_DESCRIPTIONS[type(item)]} {', '.join(name[:_SHOWN] for name in names)}"


async def _write_all(items: list[Item], connection: Connection, *, for_workers: bool) -> None:
    async with connection.transaction():
        jobs = await queue_jobs(connection, _pending(items)) if for_workers else None
        for statement, values in group_statements(items, POSTGRES, jobs):
            await connection.execute((named if isinstance(values, dict) else positional)(statement), values)


def _pending(items: list[Item]) -> list[str]:
    """The turns that workers are to score: closed ones that are not held."""
    added = [
        turn.turn_id
        for item in items
        if isinstance(item, Add)
        for turn in item.rows
        if turn.columns["status"] == "pending" and turn.turn_id not in item.held
    ]
    return list(dict.fromkeys(added))


async def _vacuum(connection: Connection) -> None:
    """Must not run in a transaction. Skips tables that another proxy vacuums."""
    await connection.execute(b"VACUUM (SKIP_LOCKED) turns, annotations, conversations, judge_answers")
