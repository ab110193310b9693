"""Logging to stderr, in which tokens never appear, nor what is redacted in turns, nor what steers a terminal."""

from __future__ import annotations

import logging
import re
import traceback
from types import TracebackType
from typing import TYPE_CHECKING

from ..privacy.redactor import Redactor, detector_rule

if TYPE_CHECKING:
    from ..privacy.policy import Privacy

SHOWN_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "age", "allow", "cache-control", "connection", "content-encoding"),
        *("content-length", "content-type", "date", "etag", "expires", "host", "last-modified", "location"),
        *("retry-after", "server", "traceparent", "transfer-encoding", "user-agent", "vary", "via"),
        *("a2a-version", "a2a-extensions", "x-a2a-extensions"),
    }
)
"""Headers whose values libraries may log; those of all others are masked."""

LOG_LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"  # how commands log that run for long
_HEADER = re.compile(r"""\((b?)(['"])([!#$%&'*+.^_`|~0-9A-Za-z-]+)\2, \1(['"])(.*?)(?<!\\)\4\)""")
"""A header as Python shows a pair of bytes or texts."""

_WITHOUT_TOKENS = Redactor([detector_rule("token")], b"")


def without_secrets(text: str) -> str:
    """`text` without bearer tokens, API keys, passwords, and values of headers that are not in `SHOWN_HEADERS`."""
    return _WITHOUT_TOKENS.text(_HEADER.sub(_masked, text))


def start_logging(level: str, form: str, privacy: Privacy) -> None:
    """Log messages of this `level` and above to stderr, redacted, with tracebacks."""
    logging.basicConfig(level=level.upper(), force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Redacting(form, privacy))


class _Redacting(logging.Formatter):
    def __init__(self, form: str, privacy: Privacy) -> None:
        from tool_call_evaluators.texts import printable  # slow to import, and `without_secrets` does without

        super().__init__(form)
        self._printable = printable
        self._privacy = privacy

    def format(self, record: logging.LogRecord) -> str:
        return self._privacy.text(self._printable(without_secrets(super().format(record))))

    def formatException(  # noqa: N802  # logging's name
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """Errors quote what they are about: without their words where rules cannot look into these."""
        if self._privacy.covers_texts or ei[0] is None:
            return super().formatException(ei)
        return "".join([*traceback.format_tb(ei[2]), f"{ei[0].__qualname__} (its words are not shown)"])


def _masked(header: re.Match[str]) -> str:
    kind, quote, name, value_quote, _ = header.groups()
    if name.lower() in SHOWN_HEADERS:
        return header.group()
    return f"({kind}{quote}{name}{quote}, {kind}{value_quote}***{value_quote})"
