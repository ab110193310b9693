"""Turns in a PostgreSQL database: opened by any number of processes together, written in groups, each in one
transaction."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import psycopg
from procrastinate.schema import SchemaManager
from psycopg.conninfo import conninfo_to_dict
from tool_call_evaluators.judge.cache import JudgeCacheError

from ... import audit
from ...settings.store_url import check_postgres, masked_url
from ..base import StoreError, StoreUnreachableError
from ..encoding import (
    Add,
    Discard,
    EncodedConversation,
    Finish,
    FinishConversations,
    Item,
    Mark,
    Prune,
    Settle,
    latest_results,
)
from ..schema import POSTGRES, Upgrade
from ..store import Store
from ..write_queue import QueuedWrites
from .database import CONNECT_TIMEOUT_S, TROUBLE, Connection, Database, named, passes, reason, refused
from .reads import PostgresReads
from .work import WorkStore
from .writes import (
    Rows,
    conversation_columns,
    delete_turns,
    insert_turns,
    insert_wires,
    prune,
    put_conversations,
    put_results,
    result_columns,
    settle_turns,
    vacuum,
)

logger = logging.getLogger(__name__)

_GET = named("SELECT entry FROM judge_answers WHERE key = :key")
_PUT = named(
    "INSERT INTO judge_answers (key, entry) VALUES (:key, :entry)"
    " ON CONFLICT (key) DO UPDATE SET entry = excluded.entry, kept_at = now()"
)


class PostgresJudgeCache:
    """See `JudgeCache`. Usable from any event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: str) -> Mapping[str, Any] | None:
        try:
            rows = await self._database.rows(_GET, {"key": key})
        except StoreError as error:
            raise JudgeCacheError(str(error)) from error
        return json.loads(rows[0][0]) if rows else None

    async def put(self, key: str, entry: Mapping[str, Any]) -> None:
        try:  # JSON in ASCII, which PostgreSQL takes whatever it says
            await self._database.change(_PUT, {"key": key, "entry": json.dumps(entry)})
        except StoreError as error:
            raise JudgeCacheError(str(error)) from error


VERSION_TABLE = "a2a_eval_proxy_version"

JOB_ENGINE = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The last migration of procrastinate, the job engine, that its tables have. Later ones become a version of ours."""

_CREATING = 0x6132_6165_7661_6C02  # advisory lock of who creates or upgrades the tables


def check_url(url: str) -> None:
    """Raises StoreError for what is no URL of a database."""
    try:
        check_postgres(url)
        conninfo_to_dict(url)
    except (ValueError, psycopg.ProgrammingError) as error:
        raise StoreError(f"store {masked_url(url)}: {reason(error)}") from None


def prepare(url: str, *, must_exist: bool = False) -> None:
    """Make the tables of a store, or bring them to this version, in one transaction. What is there stays.

    Raises StoreUnreachableError where the database does not let us in, or cannot make them now; StoreError where it
    (`must_exist`) holds no store, holds one of an unknown version, or something else under the names of our tables.
    """
    name = f"store {masked_url(url)}"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
            former = _create_tables(connection, must_exist=must_exist)
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from error
    except (psycopg.OperationalError, OSError) as error:
        raise StoreUnreachableError(f"{name}: cannot connect: {reason(error)}") from error
    except psycopg.Error as error:
        problem = f"{name}: its tables cannot be created: {reason(error)}"
        if passes(error):
            raise StoreUnreachableError(problem) from error
        raise StoreError(f"{problem}; give a database of its own") from error
    if former not in (None, POSTGRES.version):
        audit.changed(store=masked_url(url), schema=POSTGRES.version)


def upgrade_of(url: str) -> Upgrade:
    """That of an existing store. Raises StoreUnreachableError; StoreError for a missing one, or an unknown version."""
    check_url(url)
    name = f"store {masked_url(url)}"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            version = _stored_version(connection)
    except (psycopg.Error, OSError) as error:
        raise StoreUnreachableError(f"{name}: cannot connect: {reason(error)}") from error
    if version is None:
        raise StoreError(f"{name}: {_NO_STORE}")
    try:
        return Upgrade(version, POSTGRES.version, POSTGRES.upgrade(version))
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from None


_NO_STORE = "the database holds no store; has anything been captured into it?"


def _stored_version(connection: psycopg.Connection[Any]) -> int | None:
    """None where the database holds no store."""
    (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (VERSION_TABLE,)).fetchone() or (False,)
    if not exists:
        return None
    (version,) = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() or ("0",)  # noqa: S608
    return int(version)


def _create_tables(connection: psycopg.Connection[Any], *, must_exist: bool) -> int | None:
    """Returns the version that the store had; None for a new one."""
    version = _stored_version(connection)
    if version is not None:
        statements = POSTGRES.upgrade(version)
    elif must_exist:
        raise StoreError(_NO_STORE)
    else:
        connection.execute(f"CREATE TABLE {VERSION_TABLE} (version_num varchar(32) PRIMARY KEY)")
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES ('')")  # noqa: S608  # fixed texts
        statements = [*POSTGRES.statements(), SchemaManager.get_schema()]
    for statement in statements:
        connection.execute(statement.encode())
    if statements:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{POSTGRES.version:04}'")  # noqa: S608
    return version


_SHOWN = 100  # characters of an id in a message: agents make up some of them


class PostgresStore(PostgresReads, Store):
    """With `for_workers`, each turn that is added as pending is queued for them in the same
    transaction.

    Raises StoreError for what is no URL of a database. Where the database does not let us in it raises
    StoreUnreachableError, where it holds something else, or (with `must_exist`) no store, StoreError; `patient`, it
    leaves that to `start` and tries for as long as it takes. Once open, it outlives a database that goes away for some
    time (`patient`: for any): what is written waits in memory.
    """

    trouble = TROUBLE

    def __init__(self, url: str, *, must_exist: bool = False, for_workers: bool = False, patient: bool = False) -> None:
        check_url(url)
        self._url = url
        self._must_exist = must_exist
        database = Database(url)
        PostgresReads.__init__(self, database)
        QueuedWrites.__init__(self, database.name, patient=patient)
        self.judge_cache = PostgresJudgeCache(database)
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

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        added = {
            id(item): [turn.columns() | {"held": turn.turn_id in item.held, "names": turn.names} for turn in item.rows]
            for item in group
            if isinstance(item, Add)
        }
        return partial(self._write, group, added)

    def _pruned(self, item: Prune) -> int:
        deleted = 0
        while count := self._database.submit(partial(prune, item=item, sizes=self._sizes)).result():
            deleted += count
        if deleted:
            try:
                self._database.submit(vacuum).result()
            except TROUBLE as error:
                logger.info(
                    "store %s: what was deleted is freed in the server's own time: %s", self._name, reason(error)
                )
        return deleted

    def _write(self, items: list[Item], added: dict[int, Rows]) -> None:
        """Write them together; where the database refuses one of them, all others."""
        try:
            self._database.submit(partial(_write_all, items, added, for_workers=self._for_workers)).result()
        except TROUBLE as error:
            if not refused(error):
                raise
            if len(items) > 1:
                for item in items:
                    self._write([item], added)
            else:
                logger.error("store %s will not take %s: %s", self._name, _described(items[0]), reason(error))


_DESCRIPTIONS = {
    Add: "turn(s)",
    Settle: "the trace calls of turn(s)",
    Finish: "the results of turn(s)",
    FinishConversations: "the results of conversation(s)",
    Discard: "the deletion of turn(s)",
    Mark: "a mark",
}


def _described(item: Item) -> str:
    names = [
        row
        if isinstance(row, str)
        else row.key.conversation_id
        if isinstance(row, EncodedConversation)
        else row.turn_id
        for row in item.rows
    ]
    return f"{_DESCRIPTIONS[type(item)]} {', '.join(name[:_SHOWN] for name in names)}"


async def _write_all(items: list[Item], added: dict[int, Rows], connection: Connection, *, for_workers: bool) -> None:
    """Turns before their results, results in the order in which they came. `added` has the rows of an `Add` by id."""
    new = [row for item in items for row in added.get(id(item), ())]
    async with connection.transaction():
        await insert_turns(connection, new, for_workers=for_workers)
        wires = {turn.turn_id: turn.wire.decode() for item in items if isinstance(item, Add) for turn in item.rows}
        await insert_wires(connection, {turn_id: wire for turn_id, wire in wires.items() if wire})
        settled = [turn for item in items if isinstance(item, Settle) for turn in item.rows]
        await settle_turns(connection, settled, for_workers=for_workers)
        await put_results(connection, [result_columns(one) for one in latest_results(items)])
        for item in items:
            if isinstance(item, FinishConversations):
                await put_conversations(connection, [conversation_columns(one) for one in item.rows])
            elif isinstance(item, Discard):
                await delete_turns(connection, list(item.rows))
