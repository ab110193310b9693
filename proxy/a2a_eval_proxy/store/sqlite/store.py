"""The store in one SQLite file: a writer thread that commits in groups, and concurrent readers (WAL). The file is
opened and recognized here, and a damaged one renamed.

What is old is deleted for good: neither the file nor its write-ahead log has its bytes.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from ...threads import MOST_WAITING, Begin, BoundedThreads
from ..base import StoreError, StoreFileError, StoreUnreachableError
from ..dialects import SQLITE
from ..encoding import Item, stored_text
from ..observations import ObservationTable
from ..reads import Rows
from ..schema import VERSION, statements, unknown_version
from ..store import Store
from ..write_queue import QueuedWrites, StoreLostError
from ..writes import Statement, group_statements


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block under SQLite's write lock and commit it. An exception undoes the block."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # an error may have ended the transaction
            connection.execute("ROLLBACK")
        raise


BESIDE = ("-wal", "-shm")
"""Suffixes of the files next to a database: the write-ahead log, which is part of the data, and its index."""

_HEADER_BYTES = 100
_APPLICATION_ID = 0x61326165
"""What the header of a store says to be, `a2ae`."""

PAGE_BYTES = 8192
"""Of a new file: in one of 4096, a turn of more than 2 KB takes a page of its own."""
BUSY_S = 10.0
"""How long an operation waits for the lock of another process."""
_GIVE = "give the path of a store, or of a new file"

Identity = tuple[int, int]  # device and inode, since another file may get the same name


class StoreDamagedError(StoreFileError):
    """`file` is damaged; `ours` if it is known to be a store."""

    def __init__(self, message: str, file: Identity | None, *, ours: bool) -> None:
        super().__init__(message)
        self.file = file
        self.ours = ours


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error means a damaged file, rather than a temporary problem."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def identity(path: str) -> Identity | None:
    """None where there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116  # before each write
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_file(path: str) -> tuple[sqlite3.Connection, Identity | None]:
    """Open a store for writing, or create one. Returns its connection, and which file that is.

    Raises StoreError for a missing directory or a file that is not a store, StoreDamagedError for a damaged file,
    StoreFileError for a file that cannot be opened now.
    """
    parent = Path(path).parent
    if not parent.is_dir():
        raise StoreError(f"store {path}: there is no directory {str(parent)!r}; {_GIVE}")
    file = None
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # readable by its owner only
        file = identity(path)
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=BUSY_S)
        try:
            _prepare(connection, path)
        except BaseException:
            with suppress(sqlite3.Error):
                connection.close()
            raise
    except sqlite3.Error as error:
        message = f"store {path}: {error}; {_GIVE}"
        if is_damage(error):
            raise StoreDamagedError(message, file, ours=_is_ours(path)) from error
        raise StoreFileError(message) from error
    except OSError as error:
        raise StoreFileError(f"store {path}: {error.strerror}; {_GIVE}") from error
    return connection, file


def _check_version(connection: sqlite3.Connection, path: str) -> None:
    """Raises StoreError for a database that is not a store, or one of another version."""
    ours, version = _number(connection, "application_id") == _APPLICATION_ID, _number(connection, "user_version")
    if version == 0 or not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'turns'").fetchone():
        raise StoreError(f"store {path}: the file is a database, but not a store (schema {version}); {_GIVE}")
    if not ours or version != VERSION:
        raise StoreError(f"store {path}: {unknown_version(version)}")


def _is_ours(path: str) -> bool:
    """Whether the header of a file says that it is a store, of whatever version
    (https://www.sqlite.org/fileformat2.html, 1.3): SQLite reads nothing of a file that lacks its end."""
    try:
        with Path(path).open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:72] == _APPLICATION_ID.to_bytes(4, "big")


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Configure the file, and create its tables in a new one.

    Raises StoreError, with the content unchanged, for a file that is not a store, or one of another version.
    """
    connection.execute("BEGIN")  # another process may create the tables now
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    is_new = _number(connection, "user_version") == 0 and not tables
    if not is_new:
        _check_version(connection, path)
    connection.execute("COMMIT")
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # this and the next take effect in a new file only
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # it can shrink
    connection.execute("PRAGMA secure_delete = ON")  # overwrites deleted and replaced values
    try:
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError:  # of two that switch at once, SQLite refuses one without waiting
        with transaction(connection):  # waits for the other
            pass
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -8000")  # KiB: ids are random, and each is in a page of its own of an index
    connection.execute("PRAGMA foreign_keys = ON")  # annotations are deleted with their turn
    if is_new:
        _create_tables(connection)
    connection.execute("PRAGMA temp_store = MEMORY")  # else a large group leaves copies of its pages in /var/tmp


def _create_tables(connection: sqlite3.Connection) -> None:
    """In one transaction: a process that is killed leaves the file as it was."""
    with transaction(connection):
        if _number(connection, "user_version") == VERSION:  # another process was first
            return
        for statement in statements(SQLITE):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def moved_aside(path: str, damaged: Identity | None, why: str) -> str:
    """Rename the damaged file and its write-ahead log, after its connections are closed; returns the message to log.

    Whatever else has the name by now, such as the new file of another process that met the damage, keeps it. Raises
    OSError.
    """
    if identity(path) != damaged:
        return f"{why}; another process moved it, and the file now there is used"
    target = f"{path}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z"
    Path(path).rename(target)
    for suffix in BESIDE:
        with suppress(FileNotFoundError):
            Path(path + suffix).rename(target + suffix)
    return f"{why}; it was moved to {target}, and a new one is begun"


logger = logging.getLogger(__name__)

T = TypeVar("T")

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
