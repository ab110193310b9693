"""Files of commands: those in a directory, those that they make for their user, and temporary folders that outlive no
process for long."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir


def write_out(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file as `write_file` does, or a device or pipe such as /dev/stdout. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, "utf-8")
    else:
        write_file(path, text)


def write_file(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file atomically; its mode follows the umask, also where it replaces a file.

    Does not follow a symbolic link, and replaces a pipe or device: other users with write access to the directory must
    not choose which file is overwritten or who reads the text. Raises OSError.
    """
    refuse_link(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the user gave
        raise


def refuse_link(path: Path) -> None:
    """Raise OSError for a symbolic link."""
    if path.is_symlink():
        raise OSError(
            errno.ELOOP, "it is a symbolic link, which is not followed; delete it, or give another path", str(path)
        )


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
