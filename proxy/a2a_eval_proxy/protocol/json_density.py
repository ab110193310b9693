"""How many values a JSON text may have before it is parsed: as Python objects they take far more memory. Pure."""

from __future__ import annotations

MAX_VALUES = 500_000
"""An object with one member takes about 220 bytes of memory, and 6 bytes of JSON."""

_SMALL = 256 * 1024
"""A text up to this length is never too dense: it has room for few values."""


def is_dense(text: bytes | str) -> bool:
    """Whether `text`, parsed as JSON, could have more than `MAX_VALUES` values.

    Counts commas and opening brackets, those inside strings too: an upper bound that costs a fraction of parsing.
    """
    if len(text) <= _SMALL:
        return False
    if isinstance(text, bytes):
        return text.count(b",") + text.count(b"[") + text.count(b"{") > MAX_VALUES
    return text.count(",") + text.count("[") + text.count("{") > MAX_VALUES
