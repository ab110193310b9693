"""Exceptions of `CaptureClient`, named by the cause."""

from __future__ import annotations

import json

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


def connection_problem(error: BaseException) -> str:
    """Why there is no connection: for a refused one that nothing listens, else the words of `error`.

    HTTP libraries keep the operating system's error as the cause of theirs, one of several for several addresses.
    """
    causes: list[BaseException] = [error]
    for cause in causes:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused; is the agent running?"
        causes += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        causes += filter(None, [cause.__cause__ or cause.__context__])
    return str(error) or type(error).__name__


def response_problem(content_type: str, text: str) -> str:
    """What an HTTP error response says: the message in A2A's form of errors (AIP-193), else the start of its text."""
    if content_type.startswith("text/html"):
        return "a web page; is it an A2A agent?"
    try:
        text = json.loads(text)["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return " ".join(str(text)[:1_000].split())[:200]
