"""Files that commands make for their user."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from pathlib import Path


def write_out(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to a file as `write_file` does, or a device or pipe such as /dev/stdout. Raises OSError."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, "utf-8")
    else:
        write_file(path, text)


class ChangedMeanwhileError(Exception):
    """Another program has changed the file; it stays as it is now."""


def write_file(path: Path, text: str, *, before: bytes | None = None) -> None:
    """Write `text` (UTF-8) to a file atomically; its mode follows the umask, also where it replaces a file.

    With `before`, replaces the file that has this content, keeps its mode, and survives a crash of the machine.
    Does not follow a symbolic link, and replaces a pipe or device: other users with write access to the directory must
    not choose which file is overwritten or who reads the text. Raises OSError, ChangedMeanwhileError.
    """
    refuse_link(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with part.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            if before is not None:
                os.fsync(file.fileno())
                shutil.copymode(path, part)
                if path.read_bytes() != before:
                    raise ChangedMeanwhileError
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
