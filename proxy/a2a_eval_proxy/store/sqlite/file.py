"""Opens and recognizes the file of an SQLite store, renames a damaged one, copies a read-only one, shows its users."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from ... import audit
from ..base import StoreError, StoreFileError
from ..schema import FIRST_VERSION, SQLITE, Upgrade


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


def of_agents(*names: str) -> str:
    """The condition that a turn is one of these agents (SQL)."""
    return f"agent IN ({', '.join(names)})"


def found_by(column: str, *agents: str) -> str:
    """Selects the `seq` of the turns whose `conversation_id`, `task_id` or `trace_id` equals the parameter of that
    name; by `task_id`, those of these `agents`, if there are any."""
    of_index = (
        "" if column == "conversation_id" else f" AND {column} != ''"
    )  # a partial index serves queries with its condition
    of_index += f" AND {of_agents(*agents)}" if agents else ""
    equal = f"+{column} = :{column}"  # without the plus, SQLite would put the constant into the indexed expression
    return (
        "WITH RECURSIVE part (number) AS (SELECT min(seq) >> 11 FROM turns UNION ALL"  # noqa: S608  # fixed texts
        " SELECT number + 1 FROM part WHERE number < (SELECT max(seq) >> 11 FROM turns))"
        " SELECT seq FROM part CROSS JOIN turns WHERE seq >> 11 = number"
        f" AND substr({column}, -8) = substr(:{column}, -8) AND {equal}{of_index}"
    )


BESIDE = ("-wal", "-shm")
"""Suffixes of the files next to a database: the write-ahead log, which is part of the data, and its index."""

_HEADER_BYTES = 100

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


def log_identity(path: str) -> tuple[Identity | None, ...]:
    """Which write-ahead log a store has, and which index."""
    return tuple([identity(path + suffix) for suffix in BESIDE])


@contextmanager
def name_locked(path: str) -> Iterator[None]:
    """Hold the lock under which stores get their name and lose it. Raises OSError where it stays taken.

    It is a lock of the directory, and leaves no file. Where directories cannot be locked (Windows), it locks nothing.
    """
    try:
        import fcntl

        handle = os.open(Path(path).parent, os.O_RDONLY)
    except (ImportError, OSError):
        yield
        return
    try:
        give_up_at = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    raise OSError(errno.EAGAIN, "another process keeps its directory locked") from None
                time.sleep(0.01)
            except OSError:  # a file system without locks
                break
            else:
                break
        yield
    finally:
        os.close(handle)


def open_file(path: str) -> tuple[sqlite3.Connection, Identity | None]:
    """Open a store for writing, or create one. Returns its connection, and which file that is.

    Raises StoreError for a missing directory or a file that is not a store, StoreDamagedError for a damaged file,
    StoreFileError for a file that cannot be opened now.
    """
    parent = Path(path).parent
    if not parent.is_dir():
        raise StoreError(f"store {path}: there is no directory {str(parent)!r}; {_GIVE}")
    version = file = None
    try:
        with name_locked(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # readable by its owner only
            file = identity(path)
            connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=BUSY_TIMEOUT_S)
            try:
                connection.execute("BEGIN")  # another process may create the tables now
                version = _version(connection)
                tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                connection.execute("COMMIT")
                _prepare(connection, path, version, tables)
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.close()
                raise
    except sqlite3.Error as error:
        message = f"store {path}: {error}; {_GIVE}"
        if is_damage(error):
            if version is None:  # SQLite reads nothing of a truncated file
                version = _version_in_header(path)
            raise StoreDamagedError(
                message, file, ours=version is not None and FIRST_VERSION <= version <= SQLITE.version
            ) from error
        raise StoreFileError(message) from error
    except OSError as error:
        raise StoreFileError(f"store {path}: {error.strerror}; {_GIVE}") from error
    return connection, file


def upgrade_of(path: str) -> Upgrade:
    """That of an existing store. Raises StoreError for a missing one, or one of an unknown version."""
    if not Path(path).is_file():
        raise StoreError(f"store {path}: there is no such file; --store names another")
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S)) as connection:
            version = _version(connection)
            return Upgrade(version, SQLITE.version, _statements(connection, path, version))
    except sqlite3.Error as error:
        is_store = is_damage(error) and _version_in_header(path) is not None
        problem = f"is damaged: {error}" if is_store else str(error)
        raise StoreFileError(f"store {path}: {problem}; {_GIVE}") from error


def _statements(connection: sqlite3.Connection, path: str, version: int) -> list[str]:
    """Those of its upgrade. Raises StoreError for a database that is not a store, or one of an unknown version."""
    if version == 0 or not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'turns'").fetchone():
        raise StoreError(f"store {path}: the file is a database, but not a store (schema {version}); {_GIVE}")
    try:
        return SQLITE.upgrade(version)
    except StoreError as error:
        raise StoreError(f"store {path}: {error}") from None


def _version_in_header(path: str) -> int | None:
    """Returns the user version in the header of a database (https://www.sqlite.org/fileformat2.html, 1.3), or None."""
    try:
        with Path(path).open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return None
    if len(header) < _HEADER_BYTES or not header.startswith(b"SQLite format 3\0"):
        return None
    return int.from_bytes(header[60:64], "big")


@contextmanager
def file_marked_in_use(path: str) -> Iterator[bool]:
    """Mark the file as in use until the end of the block; yields whether another block has marked it, in any process.

    The mark is a lock that SQLite does not use. Enter while no connection is open, leave after all are closed: closing
    any handle of a file ends the locks that SQLite holds in this process (https://www.sqlite.org/howtocorrupt.html,
    2.2). A file that cannot be locked counts as not in use.
    """
    try:
        import fcntl

        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except (ImportError, OSError):  # Windows; a store that cannot be opened now
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = False
        except OSError as error:  # also if the file system has no locks
            taken = isinstance(error, BlockingIOError)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # of the first, too: the others see it
        yield taken
    finally:
        os.close(handle)


def is_read_only(path: str) -> bool:
    """Whether the file is readable, but it or a write-ahead log next to it cannot be written."""
    return os.access(path, os.R_OK) and not (os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK))


def copied(path: str, folder: Path) -> str:
    """Copy a store and its write-ahead log into `folder`; returns the path of the copy.

    The copy is consistent even if another process writes the store. Raises StoreFileError.
    """
    target = folder / Path(path).name
    try:
        with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as source:
            source.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            with closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
    except sqlite3.Error:  # a log without index, for example, cannot be read in a read-only directory
        _copy_files(path, target)
    target.chmod(0o600)
    return str(target)


def _copy_files(path: str, target: Path) -> None:
    try:
        shutil.copyfile(path, target)
        log = BESIDE[0]
        if Path(path + log).exists():
            shutil.copyfile(path + log, f"{target}{log}")
    except OSError as error:
        raise StoreFileError(f"store {path}: it is read-only, and cannot be copied to be read: {error}") from error


def _prepare(connection: sqlite3.Connection, path: str, version: int, tables: set[str]) -> None:
    """Configure the file, and create or upgrade its tables.

    Raises StoreError, with the content unchanged, for a file that is not a store, or one of an unknown version.
    """
    is_new = version == 0 and not tables - {"judge_answers"}  # a judge cache alone may use the file before
    if not is_new:
        _statements(connection, path, version)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect in a new file only: it can shrink
    connection.execute("PRAGMA secure_delete = ON")  # overwrites deleted and replaced values
    connection.execute("PRAGMA journal_mode = WAL")  # SQLite would refuse one of two that switch at once
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")  # annotations and wires are deleted with their turn
    if version != SQLITE.version:
        _create_tables(connection)  # before the next line: an upgrade sorts large indexes on disk
        if not is_new:
            audit.changed(store=path, schema=SQLITE.version)
    _version(connection)  # the first read creates the log, which is known by its identity: a copy has none yet
    connection.execute("PRAGMA temp_store = MEMORY")  # else a large group leaves copies of its pages in /var/tmp


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables, or upgrade them, in one transaction: a process that is killed leaves the file as it was."""
    with transaction(connection):
        version = _version(connection)  # another process may have been first
        for statement in SQLITE.upgrade(version) if version else SQLITE.statements():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SQLITE.version}")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def moved_aside(path: str, damaged: Identity | None, why: str) -> str:
    """Rename the damaged file and its write-ahead log, after its connections are closed; returns the message to log.

    Whatever else has the name by now, such as the new file of another process that met the damage, keeps it. Raises
    OSError.
    """
    target = f"{path}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z"
    with name_locked(path):
        if identity(path) != damaged:
            return f"{why}; another process moved it, and the file now there is used"
        Path(path).rename(target)
        for suffix in BESIDE:
            with suppress(FileNotFoundError):
                Path(path + suffix).rename(target + suffix)
    return f"{why}; it was moved to {target}, from which 'sqlite3 FILE .recover' may get turns; a new one is made"


RESERVE_BYTES = 8 * 1024 * 1024
"""More than the log has that is not in the file yet, which has to get there before anything is deleted for good."""

_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP})


def is_full(error: BaseException) -> bool:
    """Whether the error means that the disk is full."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) in _FULL


def keep_reserve(path: str) -> None:
    """Keep the reserve of the store at `path`, if there is room for it."""
    reserve = _reserve_of(path)
    with suppress(OSError):
        handle = os.open(reserve, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(handle).st_size < RESERVE_BYTES:
                _fill(handle)
        except OSError:
            release_reserve(path)
        finally:
            os.close(handle)


def release_reserve(path: str) -> bool:
    """Give the reserve up; whether there was one."""
    try:
        os.unlink(_reserve_of(path))  # noqa: PTH108  # as the rest
    except OSError:
        return False
    return True


def _reserve_of(path: str) -> str:
    return f"{path}-reserve"


def _fill(handle: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, RESERVE_BYTES)
    else:
        os.ftruncate(handle, 0)
        for _ in range(RESERVE_BYTES // 65_536):
            os.write(handle, bytes(65_536))
