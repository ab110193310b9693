"""One log line for a problem that repeats, not one for each time it happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..errors import log_once

logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

EVERY_S = 60.0  # seconds between two lines about the same problem


class ProblemLog:
    """Logs a problem when it first happens, then at most once a minute how often it happened since the last line.

    `text` is the line, with `{count}`, for example "{count} turn(s) were dropped", and the names of what `seen` is
    told. Belongs to one event loop: `seen` neither waits nor raises.
    """

    def __init__(
        self,
        logger: logging.Logger,
        text: str,
        level: int = logging.ERROR,
        *,
        later: Callable[[float, Callable[[], None]], Any] | None = None,
    ) -> None:
        """`later(seconds, callback)` schedules the next line; None: on the running event loop."""
        self._logger, self._text, self._level, self._later = logger, text, level, later
        self._untold = 0
        self._facts: dict[str, str] = {}
        self._pauses = False
        """Whether a line was written within the last minute."""

    def seen(self, count: int = 1, **facts: str) -> None:
        """The problem happened `count` times, the last time with these facts."""
        self._untold += count
        self._facts = facts
        if not self._pauses:
            self._next_line()

    def close(self) -> None:
        """Log what was counted and not yet logged. Call it when the process stops."""
        if self._untold:
            self._logger.log(self._level, "%s", self._text.format(count=self._untold, **self._facts))
            self._untold = 0

    def _next_line(self) -> None:
        self._pauses = bool(self._untold)
        self.close()
        if self._pauses:
            (self._later or asyncio.get_running_loop().call_later)(EVERY_S, self._next_line)


SCOPE = "a2a_eval_proxy"
"""Instrumentation scope of all we export. Such telemetry is ours, and contains nothing of what an agent did."""


def report(error: Exception) -> None:
    """See `log_once`."""
    log_once(logger, "telemetry failed; traffic and evaluation are not affected", error)


def never_raises(function: Callable[P, T]) -> Callable[P, T | None]:
    """`function`, where a failure of telemetry is reported, and None returned."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # error boundary
            report(error)
            return None

    return guarded
