"""Writes files that only their owner can read, since they contain the content of turns."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def write_out(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file as `write_own` does, or a device or pipe such as /dev/stdout. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, "utf-8")
    else:
        write_own(path, text)


def write_own(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file with mode 0600, atomically, whatever the mode of an existing file.

    Does not follow a symbolic link, and replaces a pipe or device: other users with write access to the directory must
    not choose which file is overwritten or who reads the text. Raises OSError.
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
            errno.ELOOP, "it is a symbolic link, which is not followed; delete it, or give another path", str(path)
        )
