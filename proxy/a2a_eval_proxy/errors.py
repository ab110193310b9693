"""Exit codes, exceptions of several rooms, and errors that end here.

Every exception that a user may see has the attribute `exit_code`: that of a command that ends with it.
"""

from __future__ import annotations

import logging
from collections import defaultdict

_MOST_LOGGED = 100
_logged: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
"""By the name of the logger: where traffic can cause many of one kind, those of others are logged all the same."""

PASSED, GATE_FAILED, BAD_INPUT, UNREACHABLE = 0, 1, 2, 3
"""Exit codes of every command."""


class ConfigError(ValueError):
    """A setting is wrong: one sentence that names the setting, the value and what is accepted."""

    exit_code = BAD_INPUT


class RunIncompleteError(Exception):
    """A run ended before its end, and not by the agent's doing; the message says why, and how to resume it."""

    exit_code = UNREACHABLE


class ListenError(OSError):
    """The process cannot listen on an address; the message says which and why."""

    exit_code = UNREACHABLE

    def __str__(self) -> str:
        return self.strerror or ""


def log_once(logger: logging.Logger, text: str, error: Exception | None = None, *, level: int = logging.ERROR) -> None:
    """Log a problem, with the traceback of its error, once: the same traffic causes it repeatedly."""
    logged, key = _logged[logger.name], (text, repr(error))
    if key not in logged and len(logged) < _MOST_LOGGED:
        logged.add(key)
        logger.log(level, "%s", text, exc_info=error)
