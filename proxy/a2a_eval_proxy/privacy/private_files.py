"""Files that only their owner may read: what agents say is nobody else's business."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def write_out(path: Path, text: str) -> None:
    """Write `text` (UTF-8) where a user asked for it: to a file as `write_own` does, or to what is none.

    That is such as /dev/stdout, or a pipe of the shell. Raises OSError.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, "utf-8")
    else:
        write_own(path, text)


def write_own(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file with mode 0600, whole or not at all, also where it was there with another mode.

    A symbolic link is not followed, and a pipe or device gives way to the file: whoever may write to a folder must not
    choose which file of ours is overwritten, or who reads what is written. Raises OSError.
    """
    refuse_link(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
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
            errno.ELOOP, "it is a symbolic link, which is not followed; delete it, or give another place", str(path)
        )
