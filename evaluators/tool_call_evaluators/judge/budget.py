"""The maximum number of requests to judges in a period."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .question import JudgeBudgetError

logger = logging.getLogger(__name__)


class JudgeBudget:
    """At most `requests` requests to judges in each `period_s` seconds; a period begins with its first request.

    Each request that is sent counts, repairs and retries too; a cached answer does not. `text` is the budget in words,
    such as `500/h`; the log says of `whose` it is, once in a period that needs more. Usable in several threads.
    """

    def __init__(
        self, requests: int, period_s: float, text: str, whose: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._requests = requests
        self._period_s = period_s
        self.text = text
        self._whose = whose
        self._clock = clock
        self._ends = clock()
        self._left = 0
        self._refused = False
        self._lock = threading.Lock()

    def spend(self) -> None:
        """Count a request that is going to be sent. Raises JudgeBudgetError where none is left."""
        with self._lock:
            now = self._clock()
            if now >= self._ends:
                self._ends, self._left, self._refused = now + self._period_s, self._requests, False
            if self._left:
                self._left -= 1
                return
            first, self._refused = not self._refused, True
            wait_s = self._ends - now
        if first:
            logger.warning(
                "%s: the judge budget of %s is spent; for %.0f s, results that need a judge are skipped",
                self._whose,
                self.text,
                wait_s,
            )
        raise JudgeBudgetError(f"the judge budget of {self.text} is spent")

    def give_back(self) -> None:
        """A request that was counted was not sent."""
        with self._lock:
            self._left = min(self._left + 1, self._requests)


_spent: ContextVar[JudgeBudget | None] = ContextVar("judge_budget", default=None)


@contextmanager
def spending(budget: JudgeBudget | None) -> Iterator[None]:
    """Context whose requests to judges count against this budget; None: against none."""
    token = _spent.set(budget)
    try:
        yield
    finally:
        _spent.reset(token)


def spend_request() -> None:
    """Called by a judge before each request. Raises JudgeBudgetError where the budget of the context is spent."""
    budget = _spent.get()
    if budget is not None:
        budget.spend()


def request_not_sent() -> None:
    """Called by a judge whose request, though counted, did not leave: there was no connection."""
    budget = _spent.get()
    if budget is not None:
        budget.give_back()
