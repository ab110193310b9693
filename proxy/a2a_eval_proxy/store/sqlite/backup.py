"""What an operator does with a store by hand: a copy in a file while it is used, and back from a copy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from ... import audit
from ...errors import ConfigError
from ...settings.store_url import file_path, is_postgres
from ..base import StoreError, StoreFileError
from .file import BESIDE, check_store, file_marked_in_use, is_damage

_PARTIAL = ".partial"
"""Suffix of a copy that is being written: the name without it is only ever that of a whole one."""


def back_up(location: str, target: Path) -> str:
    """Copy a store to the new file `target`; returns what to say of it.

    The copy is one moment of the store, with what its write-ahead log has. It is one file, without a log. Writers
    of the store are not held up. Raises StoreError for what is no store, is damaged, or cannot be copied, and
    ConfigError for PostgreSQL.
    """
    path = _file_of(location, "backup", "pg_dump")
    check_store(path)
    if target.exists():
        raise StoreError(f"{target} exists; give the name of a new file")
    with _whole(path, target) as partial:
        partial.rename(target)
    audit.changed(store=path, copied_to=str(target.absolute()))
    return f"{target}: {_turns(target)} turns, {target.stat().st_size} bytes"


def _file_of(location: str, command: str, tool: str) -> str:
    if is_postgres(location):
        raise ConfigError(f"{command} is for SQLite; for PostgreSQL use {tool}, as in the page Operations")
    return file_path(location)


def restore(backup: Path, location: str) -> str:
    """Put a copy of `backup` in the place of a store, or of the file to which a link at its path leads.

    Returns what to say of it, with the name that a former store has now. Raises StoreError, and changes nothing, for a
    backup that is no store, of another version, or damaged, and for a store that a process uses; ConfigError for
    PostgreSQL.
    """
    path = given = _file_of(location, "restore", "pg_restore")
    if not backup.is_file():
        raise StoreError(f"{backup}: there is no such file")
    check_store(str(backup))
    store = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    path = str(store)
    with _unused(path), _whole(str(backup), store) as partial:
        former = Path(f"{path}.before-{datetime.now(UTC):%Y%m%dT%H%M%S%f}Z")
        for suffix in ("", *BESIDE):  # SQLite would take the log of the former store for that of the new one
            with suppress(FileNotFoundError):
                Path(path + suffix).rename(f"{former}{suffix}")
        partial.rename(store)
    kept = str(former) if former.exists() else ""
    audit.changed(store=given, restored=str(backup.absolute()), former=kept)
    return f"{given}: {_turns(store)} turns" + (f"; the former store is {kept}" if kept else "")


@contextmanager
def _whole(source: str, target: Path) -> Iterator[Path]:
    """A checked copy of `source` next to `target`, which is removed at the end of the block unless it was renamed."""
    partial = Path(f"{target}{_PARTIAL}")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise StoreError(f"{partial} exists: another copy is being made, or one was broken off; remove it") from None
    except OSError as error:
        raise StoreFileError(f"{partial} cannot be written: {error.strerror}") from None
    try:
        with closing(_opened(source)) as original, closing(sqlite3.connect(partial, isolation_level=None)) as copy:
            original.backup(copy)  # in one step: it sees one moment, whoever writes meanwhile
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
            (found,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise StoreError(f"{source} is damaged: {' '.join(found.split())}")
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        yield partial
    except sqlite3.Error as error:
        what = "is damaged" if is_damage(error) else "cannot be copied"
        raise StoreError(f"{source} {what}: {error}") from error
    except OSError as error:
        raise StoreFileError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _unused(path: str) -> Iterator[None]:
    """Raises StoreError if a process has the store open. Until the end of the block it is marked as in use."""
    used = StoreError(f"store {path} is in use; stop the proxies and commands that use it first")
    if not Path(path).exists():
        yield
        return
    with suppress(sqlite3.DatabaseError), closing(_opened(path)) as connection:  # a damaged one has no users to ask for
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise used from None
            raise
    with file_marked_in_use(path) as by_another:
        if by_another:
            raise used
        yield


def _opened(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, isolation_level=None, timeout=0.0)


def _turns(path: Path) -> int:
    with closing(_opened(str(path))) as connection:
        return int(connection.execute("SELECT count(*) FROM turns").fetchone()[0])
