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
        return compiled_pattern(pattern, ascii_classes=True).search(text, timeout=MAX_MATCH_S) is not None
    except TimeoutError:
        raise ValueError(too_slow(pattern, text)) from None


def all_found(pattern: str, text: str) -> list[str]:
    """The different texts that `pattern` finds in `text`, in order. Raises ValueError as `found_in` does."""
    try:
        found = compiled_pattern(pattern, ascii_classes=True).finditer(text, timeout=MAX_MATCH_S)
        return list(dict.fromkeys(match[0] for match in found if match[0]))
    except TimeoutError:
        raise ValueError(too_slow(pattern, text)) from None


def too_slow(pattern: str, text: str) -> str:
    """The error about a pattern that reached the timeout."""
    return (
        f"{pattern!r} took more than {MAX_MATCH_S:g} s on a text of {len(text)} characters; "
        "write it without repetitions within repetitions"
    )


@lru_cache(maxsize=512)
def compiled_pattern(pattern: str, *, ignore_case: bool = False, ascii_classes: bool = False) -> regex.Pattern[str]:
    """The compiled pattern, in Python's syntax. Its methods take a `timeout` (s), after which they raise TimeoutError.

    With `ascii_classes`, `\\d` and `\\w` match ASCII characters only, as in the patterns of JSON Schema (ECMA-262,
    section 22.2.2.9); `\\s` matches any white space there, too. Raises ValueError for a pattern that does not compile.
    """
    try:
        re.compile(pattern)
        text = _with_ascii_classes(pattern) if ascii_classes else pattern
        return regex.compile(text, regex.IGNORECASE if ignore_case else 0)
    except (re.error, regex.error) as error:
        raise ValueError(f"{pattern!r} does not compile: {error}") from None


_ASCII = {
    r"\d": "0-9",
    r"\D": r"\x00-/:-\U0010ffff",
    r"\w": "A-Za-z0-9_",
    r"\W": r"\x00-/:-@\[-\^`{-\u017e\u0180-\u2129\u212b-\U0010ffff",  # without ſ and K: letters if case is ignored
}
_CLASS_OR_ESCAPE = re.compile(r"(\[\^?\]?(?:\\.|[^\]\\])*\])|\\.", re.DOTALL)


def _with_ascii_classes(pattern: str) -> str:
    def part(found: re.Match[str]) -> str:
        if found[1]:
            return re.sub(r"\\.", lambda escape: _ASCII.get(escape[0], escape[0]), found[1], flags=re.DOTALL)
        return f"[{_ASCII[found[0]]}]" if found[0] in _ASCII else found[0]

    return _CLASS_OR_ESCAPE.sub(part, pattern)
