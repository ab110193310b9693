"""Regular expressions of suites and settings, compiled by an engine that supports timeouts."""

from __future__ import annotations

import re
from functools import lru_cache

import regex

MAX_MATCH_S = 1.0
"""Timeout of one comparison."""


def found_in(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`. Raises ValueError for a pattern that does not compile or takes too long."""
    try:
        return compiled_pattern(pattern).search(text, timeout=MAX_MATCH_S) is not None
    except TimeoutError:
        raise ValueError(too_slow(pattern, text)) from None


def too_slow(pattern: str, text: str) -> str:
    """The error about a pattern that reached the timeout."""
    return (
        f"{pattern!r} took more than {MAX_MATCH_S:g} s on a text of {len(text)} characters; "
        "write it without repetitions within repetitions"
    )


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
