"""Regular expressions of suites and settings, compiled by an engine that supports timeouts."""

from __future__ import annotations

import re
from functools import lru_cache

import regex


@lru_cache(maxsize=512)
def compiled_pattern(pattern: str, *, ignore_case: bool = False) -> regex.Pattern[str]:
    """The compiled pattern, in Python's syntax. Its methods take a `timeout` (s), after which they raise TimeoutError.

    Raises ValueError for a pattern that does not compile.
    """
    try:
        re.compile(pattern)
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (re.error, regex.error) as error:
        raise ValueError(f"{pattern!r} does not compile: {error}") from None
