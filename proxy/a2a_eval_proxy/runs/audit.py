"""The audit log: one line for each change, over whichever door, and for each login. It has no content and no secrets.

A door says who comes in and what they ask for, with `enter`: the admin port for each request, or a command. What makes
a change says what it is, with `changed`, wherever it was called from.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import time
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)  # it is written whatever `log_level` is

MAX_BYTES = 10 * 1024 * 1024
"""Of the file: a longer one becomes FILE.1, in the place of an earlier one of that name."""
_MAX_VALUE = 300  # characters


@dataclass
class Entry:
    """A line in the making: who, by what, from where, did what; and the facts of the change."""

    who: dict[str, str]
    at_once: bool = False  # each change has a line, as it is made; else `log` is called at the end
    facts: dict[str, str | int] = field(default_factory=dict)

    def log(self, **result: str | int) -> None:
        """Write the line. Values are JSON strings in ASCII: whatever a name contains, it stays in its place."""
        values = {**self.who, **result, **self.facts}
        logger.info("%s", " ".join(f"{name}={_value(value)}" for name, value in values.items()))


_entry: ContextVar[Entry | None] = ContextVar("audit_entry", default=None)


def enter(entry: Entry) -> None:
    """What this task, and what it starts, changes from now on is of this entry."""
    _entry.set(entry)


def enter_command(did: str) -> None:
    """The same for a command that a user of this machine has started; each of its changes has a line."""
    who = {"user": _os_user(), "by": "command", "from": socket.gethostname(), "did": did}
    enter(Entry(who, at_once=True))


def note(**facts: str | int) -> None:
    """Facts for the line of a change that may follow. Never texts of people or agents."""
    if (entry := _entry.get()) is not None:
        entry.facts.update(facts)


def changed(**facts: str | int) -> None:
    """What was changed just now: of which case, in which file. Never texts of people or agents."""
    note(**facts)
    if (entry := _entry.get()) is not None and entry.at_once:
        entry.log()


def write_to(path: Path) -> None:
    """Have lines written to the file `path`, and no longer to the log. Raises OSError where it cannot be written."""
    _append(path, b"")
    form = logging.Formatter("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S")
    form.converter = time.gmtime
    handler = _File(path)
    handler.setFormatter(form)
    logger.handlers = [handler]
    logger.propagate = False


class _File(logging.Handler):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        try:
            _append(self._path, f"{line}\n".encode())
        except OSError as error:  # the change is made: its line must be somewhere
            reason = error.strerror or error
            logging.getLogger().error("the audit log %s cannot be written (%s): %s", self._path, reason, line)


def _append(path: Path, line: bytes) -> None:
    """Several processes may do so at once, and another program may rename the file at any time."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        with suppress(ImportError):  # Windows
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_size + len(line) <= MAX_BYTES:
            os.write(handle, line)
            return
        with suppress(FileNotFoundError):
            if os.path.samestat(state, path.stat()):  # else another process has just renamed it
                path.replace(f"{path}.1")
    finally:
        os.close(handle)
    _append(path, line)


def _os_user() -> str:
    """The name of who runs this process, not of what its environment says."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else os.environ.get("USERNAME", "")


def _value(value: str | int) -> str:
    return json.dumps(value[:_MAX_VALUE] if isinstance(value, str) else value)
