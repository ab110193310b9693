"""Decides which failed requests are retried, and when."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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
