"""Long computations of threads, in steps between which the event loop has the interpreter to itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

STEP_S = REST_S = 0.000_3
"""A thread computes that long, and rests that long. While it computes, the event loop waits for the interpreter, up to
the switch interval, before each of its callbacks."""


def in_steps(items: Iterable[T]) -> Iterator[T]:
    """Pass on `items`, which take their source or their consumer some time each, with rests. Not for an event loop."""
    began = time.perf_counter()
    for item in items:
        yield item
        if time.perf_counter() - began > STEP_S:
            time.sleep(REST_S)
            began = time.perf_counter()
