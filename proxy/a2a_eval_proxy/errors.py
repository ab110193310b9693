"""Exit codes, exceptions of several rooms, and errors that end here.

Every exception that a user may see has the attribute `exit_code`: that of a command that ends with it.
"""

from __future__ import annotations

import logging

_MOST_LOGGED = 100
_logged: set[tuple[str, str]] = set()

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


def log_once(logger: logging.Logger, text: str, error: Exception) -> None:
    """Log an error that nobody handles, with its traceback, once: the same traffic fails repeatedly."""
    key = text, repr(error)
    if key not in _logged and len(_logged) < _MOST_LOGGED:
        _logged.add(key)
        logger.error("%s", text, exc_info=error)
