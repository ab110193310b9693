"""Regular expressions that people write into suites and settings, for an engine that can be told to stop."""

from __future__ import annotations

import re
from functools import lru_cache

import regex


@lru_cache(maxsize=512)
def compiled_pattern(pattern: str, *, ignore_case: bool = False) -> regex.Pattern[str]:
    """The pattern, of Python's own syntax. Its methods take a `timeout` (s), after which they raise TimeoutError.

    Raises ValueError, which says why, for one that does not compile.
    """
    try:
        re.compile(pattern)
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (re.error, regex.error) as error:
        raise ValueError(f"{pattern!r} does not compile: {error}") from None
