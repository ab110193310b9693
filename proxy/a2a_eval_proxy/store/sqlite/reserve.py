"""Space that is kept next to an SQLite store for a full disk: whatever SQLite deletes, it first writes to its log."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import suppress

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
    """Raises OSError where there is no room."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, RESERVE_BYTES)
    else:
        os.ftruncate(handle, 0)
        for _ in range(RESERVE_BYTES // 65_536):
            os.write(handle, bytes(65_536))
