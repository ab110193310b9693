"""Temporary folders that outlive no process for long."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

_PREFIX = "a2a-eval-proxy-scratch-"
_IN_USE = ".in-use"
"""A file that is locked as long as its folder is used; the store has a lock of its own on the folder."""
_NEW_S = 60.0  # a file this young may not be locked yet


class ScratchFolder(TemporaryDirectory[str]):
    """A temporary folder for this user only, locked while it is used.

    A new one removes those whose process was killed: they may hold turns. Without file locks (Windows) they stay.
    """

    def __init__(self) -> None:
        for abandoned in Path(gettempdir()).glob(f"{_PREFIX}*"):
            _remove_unless_used(abandoned)
        super().__init__(prefix=_PREFIX)
        self._lock = _lock(Path(self.name), os.O_CREAT)

    def cleanup(self) -> None:
        super().cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(folder: Path, flags: int = 0) -> int | None:
    """A descriptor that holds the folder's lock; None if another one holds it, or there are no locks."""
    try:
        import fcntl

        handle = os.open(folder / _IN_USE, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove_unless_used(folder: Path) -> None:
    lock = _lock(folder)  # None for a link and the folder of another user, too
    if lock is not None:
        if os.fstat(lock).st_mtime < time.time() - _NEW_S:
            shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
