"""Exceptions of `CaptureClient`, named by the cause."""

from __future__ import annotations

from .models import CapturedTurn


class CaptureError(Exception):
    """Base class. `turn` holds what was captured before `send` failed; None if nothing was."""

    turn: CapturedTurn | None = None


class ConfigurationError(CaptureError):
    """An invalid argument, such as a header or a binding."""

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""


class AgentUnreachableError(CaptureError):
    """No connection, a connection that was lost for good, or a gateway error (502, 503, 504)."""

    exit_code = 3
    """Exit code of a command that ends with this error: unreachable."""


class AgentError(CaptureError):
    """The agent responded with an error, or with something that is not A2A."""

    exit_code = 3


class TurnTimeoutError(CaptureError):
    """The turn did not finish in time; `turn` holds what was captured before."""

    exit_code = 3
