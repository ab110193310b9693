"""What `CaptureClient` raises: one base, named by whose fault it is."""

from __future__ import annotations

from .models import CapturedTurn


class CaptureError(Exception):
    """Base of all of them. `turn` holds what was captured before `send` failed, if anything."""

    turn: CapturedTurn | None = None


class ConfigurationError(CaptureError):
    """What the caller asked for cannot be done: a header, a binding."""

    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""


class AgentUnreachableError(CaptureError):
    """No connection, a lost one that did not come back, or a gateway that says so."""

    exit_code = 3
    """Exit code of a command that ends with this error: unreachable."""


class AgentError(CaptureError):
    """The agent answered, but with an error or with something that is not A2A."""

    exit_code = 3


class TurnTimeoutError(CaptureError):
    """The turn was not done in time; `turn` holds what was captured until then."""
