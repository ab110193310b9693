"""Exceptions of `CaptureClient`, named by the cause."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from .models import CapturedTurn


class CaptureError(Exception):
    """Base class. `turn` holds what was captured before `send` failed; None if nothing was."""

    turn: CapturedTurn | None = None
    exit_code = 3
    """Exit code of a command that ends with this error: unreachable."""


class ConfigurationError(CaptureError):
    """An invalid argument, such as a header or a binding."""

    exit_code = 2  # bad usage or input


class AgentUnreachableError(CaptureError):
    """Not the agent answered: no connection, or one that was lost for good; a gateway, a login, a web page, a server
    whose application failed. A run that meets it says nothing about the agent."""


class AgentError(CaptureError):
    """The agent responded with an error, or with something that is not A2A."""


class TurnTimeoutError(CaptureError):
    """The turn did not finish in time; `turn` holds what was captured before."""


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
        r"its certificate is not trusted (\1); name its authority with --agent-ca, for serve --upstream-tls",
    ),
)
"""What Python, OpenSSL and gRPC say of a connection, as a pattern; and what it means, and what to do."""

_CLOSED = r"disconnected without sending|closed before answering|ReadError|failed to connect .*Socket closed"


def connection_problem(error: BaseException | str, url: str = "") -> str:
    """Why there is no connection, and what to do about it, where that is known; else the words of `error`.

    HTTP libraries keep the operating system's error as the cause of theirs, one of several for several addresses; gRPC
    has words only. `url`: where a first request went. An agent that closes that connection may want TLS.
    """
    causes = _causes(error) if isinstance(error, BaseException) else [error]
    said = "\n".join(f"{type(cause).__name__}: {cause}" for cause in causes)
    plain, secure = ("grpc://", "grpcs://") if url.startswith("grpc") else ("http://", "https://")
    for pattern, problem in _PROBLEMS:
        if match := re.search(pattern, said):
            known = match.expand(problem).replace("{plain}", plain)
            break
    else:
        known = ""
    if via := via_proxy(error) if isinstance(error, BaseException) else "":
        why = known.partition(";")[0] or str(error)
        return f"{why}, {via}; is that proxy right? NO_PROXY=HOST goes around it"
    if known:
        return known
    if url.startswith(plain) and re.search(_CLOSED, said):
        return f"no response; if it speaks TLS, try {secure}"
    return str(error) or type(error).__name__


VIA = "a2a_tool_capture.via"
"""The key of a request's extensions (httpx) that says through which proxy it goes."""


def via_proxy(error: BaseException) -> str:
    """Through which proxy of the environment the request went whose error this is; "" if through none."""
    for cause in _causes(error):
        with suppress(RuntimeError, AttributeError):  # httpx: an error without its request
            if via := cause.request.extensions.get(VIA):  # type: ignore[attr-defined]
                return str(via)
    return ""


def _causes(error: BaseException) -> list[BaseException]:
    """The error, its causes and theirs."""
    causes = [error]
    for cause in causes:
        causes += cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        causes += filter(None, [cause.__cause__ or cause.__context__])
    return causes


_CREDENTIALS = "credentials are missing or not accepted: give them with --header, for serve --upstream-header"
GATEWAYS = frozenset({502, 503, 504})
_OTHERS = frozenset({401, 403, 404, 405, 407, 408, 410, 421, 429})
"""Statuses with which something before the agent answers: a login, a router, a limit of requests."""


def is_web_page(headers: Mapping[str, str], text: str = "") -> bool:
    """Whether a response is for people, whatever its status is."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in ("text/html", "application/xhtml+xml") or text[:200].lstrip().lower().startswith(
        ("<!doctype html", "<html")
    )


def not_of_the_agent(status: int, headers: Mapping[str, str], text: str = "") -> bool:
    """Whether a response without success comes from something else than the agent: a login, a router, a gateway, or a
    server whose application failed. An agent's own error has a body in A2A's form."""
    if is_web_page(headers, text) or 300 <= status < 400 or status in _OTHERS:
        return True
    return status in GATEWAYS or (status >= 500 and "code" not in _error_in(text))


def _error_in(text: str) -> Mapping[str, Any]:
    """The error of a body in the form of JSON-RPC or AIP-193; {} for any other."""
    try:
        error = json.loads(text)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {"message": error} if isinstance(error, str) else {}


def response_problem(status: int, headers: Mapping[str, str], text: str, url: str = "") -> str:
    """What an HTTP response without success says, and what to do: the message in A2A's form of errors (AIP-193), else
    the start of its text. `url` is what was asked."""
    if target := headers.get("location"):
        if url and urljoin(url, target) == url:
            return "it leads to itself, again and again; its server or a gateway is set up wrongly"
        return f"it leads to {target}; give that URL if it is the agent's"
    refused = status in (401, 403)
    if is_web_page(headers, text):
        return _CREDENTIALS if refused else "a web page; is it an A2A agent?"
    said = " ".join(str(_error_in(text).get("message") or text)[:1_000].split())[:200]
    return "; ".join(filter(None, [said, _CREDENTIALS * refused]))
