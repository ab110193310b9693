"""Exceptions of `CaptureClient`, named by the cause."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

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


_PROBLEMS = (
    (r"(?i)connection ?refused", "connection refused; is the agent running?"),
    (
        r"(?i)name or service not known|no address associated|nodename nor servname|getaddrinfo failed|name not found",
        "no such host; is the URL right?",
    ),
    (r"ConnectTimeout", "no connection in time; is the URL right?"),
    (r"(?i)wrong.version.number|record.layer.failure", "it does not speak TLS at that port; try {plain}"),
    (r"certificate has expired", "its certificate has expired; renew it"),
    (
        r"(?i)(?:hostname|IP address) (?:mismatch|verification)",
        "its certificate is for another host; use its name",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED[\]:] (?:certificate verify failed: )?([\w -]+\w)",
        r"its certificate is not trusted (\1); name its authority with --agent-ca, for serve --upstream-ca",
    ),
)
"""What Python, OpenSSL and gRPC say of a connection, as a pattern; and what it means, and what to do."""

_CLOSED = r"disconnected without sending|closed before answering|ReadError|failed to connect .*Socket closed"


def connection_problem(error: BaseException | str, url: str = "") -> str:
    """Why there is no connection, and what to do about it, where that is known; else the words of `error`.

    HTTP libraries keep the operating system's error as the cause of theirs, one of several for several addresses; gRPC
    has words only. `url`: where a first request went. An agent that closes that connection may want TLS.
    """
    causes = [error]
    for cause in causes:
        if isinstance(cause, BaseException):
            causes += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
            causes += filter(None, [cause.__cause__ or cause.__context__])
    said = "\n".join(f"{type(cause).__name__}: {cause}" for cause in causes)
    plain, secure = ("grpc://", "grpcs://") if url.startswith("grpc") else ("http://", "https://")
    for pattern, problem in _PROBLEMS:
        if match := re.search(pattern, said):
            return match.expand(problem).replace("{plain}", plain)
    if url.startswith(plain) and re.search(_CLOSED, said):
        return f"no response; if it speaks TLS, try {secure}"
    return str(error) or type(error).__name__


_CREDENTIALS = "credentials are missing or not accepted: give them with --header, for serve --upstream-header"


def response_problem(status: int, headers: Mapping[str, str], text: str) -> str:
    """What an HTTP response without success says, and what to do: the message in A2A's form of errors (AIP-193), else
    the start of its text."""
    if target := headers.get("location"):
        return f"it leads to {target}; give that URL if it is the agent's"
    refused = status in (401, 403)
    if headers.get("content-type", "").startswith("text/html"):
        return _CREDENTIALS if refused else "a web page; is it an A2A agent?"
    try:
        error = json.loads(text)["error"]
        text = error if isinstance(error, str) else error["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    said = " ".join(str(text)[:1_000].split())[:200]
    return "; ".join(filter(None, [said, _CREDENTIALS * refused]))
