"""Values that name their secrets instead of holding them: `Bearer ${TOKEN}`, `Bearer ${file:/path}`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .errors import ConfigurationError

_REFERENCE = re.compile(r"\$\{(?:file:([^}]+)|([A-Za-z_][A-Za-z0-9_]*))\}")
_MAX_SECRET_BYTES = 65_536


def resolve_header(name: str, value: str) -> str:
    """The value of header `name` with what it refers to filled in.

    `${VARIABLE}` stands for an environment variable, `${file:PATH}` for the text of a file, without white space at
    its ends. What was filled in is not looked at again, and is never part of an error. Raises ConfigurationError where
    a variable or file cannot be had, is empty, or holds what no header may.
    """
    filled = resolve(f"header {name!r}", value)
    if not (filled.isascii() and filled.isprintable()):
        raise ConfigurationError(
            f"header {name!r} holds a line break, a control or a non-ASCII character; is what it refers to right?"
        )
    return filled


def resolve(setting: str, value: str) -> str:
    """`value` filled in likewise, whatever its characters. `setting` is what an error says has the value."""
    return _REFERENCE.sub(lambda match: _file(setting, match[1]) if match[1] else _variable(setting, match[2]), value)


def referenced_files(value: str) -> list[str]:
    """The paths that a value refers to."""
    return [match[1] for match in _REFERENCE.finditer(value) if match[1]]


def _variable(setting: str, variable: str) -> str:
    if variable not in os.environ:
        raise ConfigurationError(f"{setting} needs the environment variable {variable}, which is not set")
    return os.environ[variable]


def _file(setting: str, path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            secret = file.read(_MAX_SECRET_BYTES + 1).strip()
    except OSError as error:
        raise ConfigurationError(f"{setting} needs the file {path}: {error.strerror}") from None
    if not secret or len(secret) > _MAX_SECRET_BYTES:
        kind = "is empty" if not secret else f"exceeds {_MAX_SECRET_BYTES} bytes"
        raise ConfigurationError(f"{setting} needs the file {path}, which {kind}")
    return secret.decode("latin-1")
