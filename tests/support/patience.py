"""How long tests wait for what must come."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60
"""Longer than a virtual machine or a disk may stand still, shorter than the limit of a test (120 s)."""
POLL_S = 0.02
"""Between two questions whether something has happened: who asks all the time slows what it waits for."""


def awaited(arriving: SimpleQueue[T], before: list[T]) -> T:
    """The next item, which joins those `before` it. Raises AssertionError, with these, where none comes."""
    try:
        before.append(arriving.get(timeout=PATIENCE_S))
    except Empty:
        raise AssertionError(f"nothing came within {PATIENCE_S} s after these {len(before)}: {before}") from None
    return before[-1]
