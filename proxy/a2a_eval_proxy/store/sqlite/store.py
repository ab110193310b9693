"""The store in one SQLite file: a writer thread that commits in groups, and concurrent readers (WAL).

What is old is deleted for good: neither the file nor its write-ahead log has its bytes.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from ...threads import MOST_WAITING, Begin, BoundedThreads
from ..base import StoreFileError, StoreUnreachableError
from ..dialects import SQLITE
from ..encoding import Item, stored_text
from ..observations import ObservationTable
from ..reads import Rows
from ..schema import statements
from ..store import Store
from ..write_queue import QueuedWrites, StoreLostError
from ..writes import Statement, group_statements
from .file import (
    Identity,
    StoreDamagedError,
    identity,
    is_damage,
    moved_aside,
    open_file,
    transaction,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

BUSY_S = 10.0  # how long an operation waits for the lock of another process
_VACUUMED = 250  # pages freed in one transaction


class SqliteStore(Store):
    """Raises StoreError for what cannot be a store; where the file cannot be opened, StoreFileError,
    unless it is `patient`: then `start` tries for as long as it takes.

    A `patient` store continues with another file: a damaged one is moved aside, a deleted one is created again. Any
    other store writes only to the file it opened, and stops writing if that is damaged or deleted.
    """

    shared = False
    trouble = (sqlite3.Error, OSError)  # a full disk, a lock
    _dialect = SQLITE

    def __init__(self, path: str, *, patient: bool = False) -> None:
        QueuedWrites.__init__(self, path, patient=patient)
        self._path = path
        self._patient = patient
        self._reads = BoundedThreads("store reads", 4, self._too_many)
        self._searches = BoundedThreads("store searches", 2, self._too_many)
        self._changes = BoundedThreads("store changes", 1, self._too_many)  # SQLite makes one at a time
        self._changing = threading.Lock()
        """Held by a change while it has the file open, and while another file gets its name."""
        self._idle: list[tuple[Identity | None, sqlite3.Connection]] = []
        """Connections for reads, and the file of each: to open one takes longer than most reads. They delete no
        write-ahead log."""
        self._connection: sqlite3.Connection | None = None
        self._identity: Identity | None = None
        self._damage: tuple[Identity | None, str] | None = None
        """The file that is damaged, and the error that showed it."""
        if not patient:
            self._open_now()

    def close(self, timeout_s: float = 30.0) -> None:
        super().close(timeout_s)
        for threads in (self._reads, self._searches, self._changes):
            threads.end()
        if self.closed:
            self._let_go()

    # ── reads, and changes that are awaited ─────────────────────────────────────────────────────────────

    def _too_many(self) -> Exception:
        return StoreFileError(f"store {self._path}: {MOST_WAITING} operations wait for it already")

    def _connect(self, mode: Literal["ro", "rw"]) -> sqlite3.Connection:
        """A connection that does not create a missing file."""
        return sqlite3.connect(
            f"file:{quote(self._path)}?mode={mode}", uri=True, timeout=BUSY_S, check_same_thread=False
        )

    @contextmanager
    def _told(self, done: Literal["read", "written"]) -> Iterator[Identity | None]:
        """Yields the file that the block is to use. Raises StoreFileError for what goes wrong with it."""
        file = identity(self._path)
        try:
            yield file
        except OSError as error:
            raise StoreFileError(f"store {self._path}: it cannot be written: {error.strerror}") from error
        except sqlite3.Error as error:
            if self._patient and self._damage is None and file == self._identity and is_damage(error):
                self._damage = file, str(error)
                self._put(Item())  # the writing thread sees to it
            raise StoreFileError(f"store {self._path}: it cannot be {done}: {error}") from error
        except json.JSONDecodeError as error:
            raise StoreFileError(f"store {self._path}: a turn in it is damaged: {error}") from error

    async def _read(
        self, statement: str, values: dict[str, Any], decode: Callable[[Rows], T], *, search: bool = False
    ) -> T:
        def read(begin: Begin) -> T:
            begin()
            with self._told("read") as file:
                connection = self._idle_on(file) or self._connect("ro")
                try:
                    with closing(connection.execute(statement, values)) as rows:
                        found = decode(rows)
                except BaseException:
                    connection.close()
                    raise
                self._idle.append((file, connection))
                return found

        return await (self._searches if search else self._reads).run(read)

    def _idle_on(self, file: Identity | None) -> sqlite3.Connection | None:
        """A connection to this file that nobody uses; those to others are closed. None: they all are."""
        with suppress(IndexError):
            while True:
                opened, connection = self._idle.pop()
                if file is not None and opened == file:
                    return connection
                connection.close()
        return None

    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        def change(begin: Begin) -> int:
            with self._told("written"), self._changing, closing(self._connect("rw")) as connection, connection:
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("BEGIN IMMEDIATE")  # waits for the lock
                begin()
                return connection.execute(statement, values).rowcount

        return await self._changes.run(change)

    # ── in the writing thread ───────────────────────────────────────────────────────────────────────────

    def _open(self) -> None:
        try:
            self._connection, self._identity = open_file(self._path)
        except StoreDamagedError as error:
            if not (self._patient and (error.ours or self._identity)):
                raise
            logger.error("store %s: %s", self._path, self._moved_aside(error.file, str(error)))
            self.health.replaced += 1
            self._connection, self._identity = open_file(self._path)

    def _check(self) -> None:
        file, why = self._damage or (None, "")
        self._damage = None
        if why and file == self._identity:
            self._let_go()
            if not self._patient:
                raise StoreFileError(f"store {self._path}: {why}; restore a backup, or give another store")
            raise StoreLostError(self._moved_aside(file, why))
        if identity(self._path) != self._identity:
            self._let_go()
            gone = "its file was deleted or replaced while in use"
            if not self._patient:
                raise StoreUnreachableError(f"store {self._path}: {gone}")
            raise StoreLostError(f"{gone}; turns are kept in the one now there")

    def _moved_aside(self, file: Identity | None, why: str) -> str:
        """See `moved_aside`. Raises StoreFileError."""
        try:
            with self._changing:
                return moved_aside(self._path, file, why)
        except OSError as refused:
            raise StoreFileError(f"{why}; it cannot be moved aside: {refused.strerror}") from refused

    def _let_go(self) -> None:
        """Close the file. Before another takes its name: SQLite deletes a write-ahead log by name."""
        self._idle_on(None)
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _in_use(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("it is not open")
        return self._connection

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        return partial(self._write, list(group_statements(group, SQLITE)))

    def _write(self, statements: list[Statement]) -> None:
        connection = self._in_use()
        try:
            with transaction(connection):
                for statement, values in statements:
                    connection.execute(statement, values)
        except sqlite3.Error as error:
            if is_damage(error):
                self._damage = self._identity, str(error)
                self._check()
            raise

    def _execute(self, statement: str, values: dict[str, Any]) -> int:
        connection = self._in_use()
        with transaction(connection):
            return connection.execute(statement, values).rowcount

    def _value(self, statement: str, values: dict[str, Any]) -> Any:
        row = self._in_use().execute(statement, values).fetchone()
        return row[0] if row else None

    def _reclaim(self, *, deleted: bool) -> None:
        """Shrinks the file, and cuts the log, which has all that was ever written since it was last cut."""
        connection, left = self._in_use(), self._value("PRAGMA freelist_count", {})
        while left:
            connection.executescript(f"PRAGMA incremental_vacuum({_VACUUMED})")  # `execute` would free one page
            before, left = left, self._value("PRAGMA freelist_count", {})
            if left >= before:  # others have deleted
                break
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def observations_in_memory(agent: str) -> ObservationTable:
    """Observations of this process alone, where rules redact: what is not redacted is in no store."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)  # any may end it
    for statement in ("PRAGMA temp_store = MEMORY", *statements(SQLITE)):
        connection.execute(statement)

    def used() -> int:
        return int(connection.execute(SQLITE.used).fetchone()[0])

    async def read(statement: str, values: dict[str, Any], decode: Callable[[Rows], T]) -> T:
        return decode(connection.execute(statement, values))

    async def change(statement: str, values: dict[str, Any]) -> int:
        changed = connection.execute(statement, values).rowcount
        table.held_bytes = used() - empty
        return changed

    empty = used()
    table = ObservationTable(read, change, stored_text(agent))
    weakref.finalize(table, connection.close)
    return table
