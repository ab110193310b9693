"""Opens and recognizes the file of an SQLite store, renames a damaged one, shows its users."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from ..base import StoreError, StoreFileError
from ..dialects import SQLITE
from ..schema import VERSION, statements, unknown_version


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
BUSY_TIMEOUT_S = 10.0
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
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=BUSY_TIMEOUT_S)
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
