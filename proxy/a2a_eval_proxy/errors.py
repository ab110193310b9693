"""Exit codes, and exceptions of several rooms.

Every exception that a user may see has the attribute `exit_code`: that of a command that ends with it.
"""

from __future__ import annotations

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
