"""How many values a JSON text may have before it is parsed: as Python objects they take far more memory. Pure."""

from __future__ import annotations

import re

MAX_VALUES = 500_000
"""An object with one member takes about 220 bytes of memory, and 6 bytes of JSON."""

_SMALL = 256 * 1024
"""A text up to this length is never too dense: it has room for few values."""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_STRINGS = re.compile(_STRING.encode(), re.DOTALL), re.compile(_STRING, re.DOTALL)


def may_be_dense(text: bytes | str, most: int | None = None) -> bool:
    """Whether `text` could have more than `most` values (None: `MAX_VALUES`): counts marks inside strings, too."""
    return len(text) > _SMALL and _marks(text) > (most or MAX_VALUES)


def is_dense(text: bytes | str, most: int | None = None) -> bool:
    """Whether `text` as JSON has more than `most` (None: `MAX_VALUES`) commas and opening brackets outside strings."""
    most = most or MAX_VALUES
    if len(text) <= _SMALL or _marks(text) <= most:
        return False
    # Valid JSON has at most two strings for each mark, so more need not be left out.
    if isinstance(text, str):
        return _marks(_STRINGS[1].sub("", text, 2 * most)) > most
    if 0 in text[:4]:  # UTF-16 or UTF-32, in which the pattern does not find the ends of strings
        return True
    return _marks(_STRINGS[0].sub(b"", text, 2 * most)) > most


def _marks(text: bytes | str) -> int:
    if isinstance(text, bytes):
        return text.count(b",") + text.count(b"[") + text.count(b"{")
    return text.count(",") + text.count("[") + text.count("{")
