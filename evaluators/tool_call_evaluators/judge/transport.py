"""Sends one request to a language model, over HTTP to an OpenAI-compatible API.

Retries are up to the caller; what decides on them is here.
"""

from __future__ import annotations

import os
import random
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx
from a2a_tool_capture.environment_proxies import EnvironmentTransport, environment_authorities

from .answers import error_of, shortened
from .question import JudgeAnswerError
from .settings import JudgeSettings, endpoint, sent_headers

FIRST_WAIT_S = 0.5
LONGEST_BACKOFF_S = 8.0
LONGEST_WAIT_S = 120.0
"""Longest accepted wait, in seconds. A request with a longer one fails at once."""


def is_transient(status: int, code: str | None = None) -> bool:
    """Whether the same request may succeed later. `code` is the error code of the API, if any.

    An exhausted quota is a 429 too, but waiting does not help.
    """
    return code != "insufficient_quota" and (status in (408, 409, 425, 429) or status >= 500)


def backoff(
    attempt: int,
    fraction: float | None = None,
    *,
    first_s: float = FIRST_WAIT_S,
    longest_s: float = LONGEST_BACKOFF_S,
) -> float:
    """Seconds to wait after failed attempt `attempt` (from 0): `first_s`, doubling up to `longest_s`, less up to half
    at random.

    `fraction`, 0 to 1, replaces the random number.
    """
    fraction = random.random() if fraction is None else fraction  # noqa: S311  # jitter, not a secret
    longest = min(longest_s, first_s * 2.0 ** min(attempt, 16))
    return longest * (1 - fraction / 2)


def asked_wait(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the server asks to wait; None without a valid header.

    Reads `retry-after-ms` (OpenAI's) and `Retry-After` as seconds or as a date (RFC 9110, 10.2.3). Header names are
    lower case. A time in the past is 0.
    """
    for header, seconds in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            waited = float(headers[header]) * seconds
        except (KeyError, ValueError):
            continue
        if 0 <= waited < float("inf"):
            return waited
    try:
        moment = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds())


class RefusedError(Exception):
    """The server answered with an error. `parameter` is the one it names, `wait` the seconds that it asks to wait."""

    def __init__(
        self, status: int, message: str, code: str | None = None, parameter: str = "", wait: float | None = None
    ) -> None:
        super().__init__(f"HTTP {status}" + (f": {message}" if message else ""))
        self.status, self.code, self.parameter, self.wait = status, code, parameter, wait

    @classmethod
    def of(cls, response: httpx.Response) -> RefusedError:
        """The error in the response of a chat-completions API."""
        wait = asked_wait(response.headers, datetime.now(UTC))
        return cls(response.status_code, *error_of(response.text), wait)

    def retry(self, attempt: int) -> tuple[str, float | None]:
        """The problem, and the seconds to wait before a retry; None: a retry would not help."""
        if not is_transient(self.status, self.code):
            return str(self), None
        if self.wait is None:
            return str(self), backoff(attempt)
        if self.wait > LONGEST_WAIT_S:
            return f"{self}; the server asks to wait {self.wait:.0f} s", None
        return str(self), self.wait


class UnansweredError(Exception):
    """There was no whole response. `billed`: the server may have answered, and the request be paid for."""

    def __init__(self, problem: str, *, billed: bool) -> None:
        super().__init__(problem)
        self.billed = billed


class ChatApi:
    """Sends requests to an OpenAI-compatible API.

    Every request opens its own connection: that is fast compared with a verdict, and no pool must be closed or tied
    to an event loop."""

    def __init__(self, settings: JudgeSettings, api_key: str | None) -> None:
        self._endpoint = endpoint(settings)
        self._headers = sent_headers(settings, api_key, os.environ)

    async def complete(self, request: Mapping[str, Any]) -> Any:
        """The JSON form of the response to a chat-completions request.

        Raises RefusedError, UnansweredError, or JudgeAnswerError for a response that is not JSON.
        """
        try:
            transport = EnvironmentTransport(_tls())
            async with httpx.AsyncClient(transport=transport, timeout=None) as client:  # noqa: S113  # the caller limits it
                response = await client.post(self._endpoint, json=request, headers=self._headers)
        except httpx.RequestError as error:
            problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise UnansweredError(problem, billed=not isinstance(error, _NOT_SENT)) from None
        if not response.is_success:
            raise RefusedError.of(response)
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise JudgeAnswerError(f"not JSON: {shortened(response.text)}") from None


_NOT_SENT = (httpx.ConnectError, httpx.ProxyError, httpx.UnsupportedProtocol)


@cache
def _tls() -> ssl.SSLContext:
    """Created once: loading the certificates takes longer than a connection."""
    return environment_authorities()
