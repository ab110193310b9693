"""Values that refer to secrets: `Bearer ${TOKEN}`, `Bearer ${file:/path}`."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from .errors import ConfigurationError

_REFERENCE = re.compile(r"\$\{(?:file:([^}]+)|([A-Za-z_][A-Za-z0-9_]*))\}")
_MAX_SECRET_BYTES = 65_536
_FRAMING = ("content-length", "transfer-encoding")  # they frame the body: of each request another one


def resolve_header(name: str, value: str) -> str:
    """The value of header `name` with its references replaced.

    `${VARIABLE}` is replaced by an environment variable, `${file:PATH}` by the content of a file without leading and
    trailing white space. Replaced text is not searched for references and never part of an error. Raises
    ConfigurationError if a variable or file is missing or empty, if the result is not a valid header value, or if the
    header frames the body.
    """
    if name.lower() in _FRAMING:
        raise ConfigurationError(f"header {name!r} is set for each request; leave it out")
    filled = resolve(f"header {name!r}", value)
    if not (filled.isascii() and filled.isprintable()):
        raise ConfigurationError(
            f"header {name!r} holds a line break, a control or a non-ASCII character; "
            "check the variables and files that it refers to"
        )
    return filled


def resolve(setting: str, value: str) -> str:
    """`value` with its references replaced; any characters are allowed. Errors name it as `setting`."""
    return _REFERENCE.sub(lambda match: _file(setting, match[1]) if match[1] else _variable(setting, match[2]), value)


def referenced_files(value: str) -> list[str]:
    """Paths of the files that a value refers to."""
    return [match[1] for match in _REFERENCE.finditer(value) if match[1]]


def unset_variables(value: str) -> list[str]:
    """Names of the variables that a value refers to and that are not set."""
    names = (match[2] for match in _REFERENCE.finditer(value))
    return [name for name in names if name and name not in os.environ]


def _variable(setting: str, variable: str) -> str:
    if variable not in os.environ:
        raise ConfigurationError(f"{setting} needs the environment variable {variable}, which is not set")
    return os.environ[variable]


def _file(setting: str, path: str) -> str:
    try:
        with open_regular(path) as file:
            secret = file.read(_MAX_SECRET_BYTES + 1).strip()
    except OSError as error:
        raise ConfigurationError(f"{setting} needs the file {path}: {error.strerror}") from None
    if not secret or len(secret) > _MAX_SECRET_BYTES:
        kind = "is empty" if not secret else f"exceeds {_MAX_SECRET_BYTES} bytes"
        raise ConfigurationError(f"{setting} needs the file {path}, which {kind}")
    return secret.decode("latin-1")


def open_regular(path: str | Path) -> BinaryIO:
    """Open a file for reading. Raises OSError, also for a named pipe: to open it would wait for a writer, and with it
    all that the process does.

    What a shell gives a command below /dev, such as `<(...)`, is read.
    """
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or Path(path).absolute().is_relative_to("/dev")):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return Path(path).open("rb")
