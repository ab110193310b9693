"""Logging to stderr, in which tokens never appear, nor what is redacted in turns."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from .redaction import Redactor, detector_rule

SHOWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "age", "allow", "cache-control", "connection", "content-encoding"),
        *("content-length", "content-type", "date", "etag", "expires", "host", "last-modified", "location"),
        *("retry-after", "server", "traceparent", "transfer-encoding", "user-agent", "vary", "via"),
        *("a2a-version", "a2a-extensions", "x-a2a-extensions"),
    }
)
"""Headers whose values libraries may log; those of all others are masked."""

LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""How commands log that run for long."""

_HEADER = re.compile(r"""\((b?)(['"])([!#$%&'*+.^_`|~0-9A-Za-z-]+)\2, \1(['"])(.*?)(?<!\\)\4\)""")
"""A header as Python shows a pair of bytes or texts."""

_WITHOUT_TOKENS = Redactor([detector_rule("token")], b"")


def without_secrets(text: str) -> str:
    """`text` without bearer tokens, API keys, passwords, and values of headers that are not in `SHOWN_HEADERS`."""
    return _WITHOUT_TOKENS.text(_HEADER.sub(_masked, text))


def start_logging(level: str, form: str, redact: Callable[[str], str] | None = None) -> None:
    """Log to stderr what is of this `level` and above, each record put through `redact` too, its traceback included."""
    logging.basicConfig(level=level.upper(), force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Redacting(form, redact))


class _Redacting(logging.Formatter):
    def __init__(self, form: str, redact: Callable[[str], str] | None) -> None:
        super().__init__(form)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        text = without_secrets(super().format(record))
        return text if self._redact is None else self._redact(text)


def _masked(header: re.Match[str]) -> str:
    kind, quote, name, value_quote, _ = header.groups()
    if name.lower() in SHOWN_HEADERS:
        return header.group()
    return f"({kind}{quote}{name}{quote}, {kind}{value_quote}***{value_quote})"
