"""The test that runs in this process, and its time limit (pytest-timeout)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_timer: dict[str, Any] = {}
"""What the running test's timer was set with, as long as it has one."""


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    _timer.update(item=item, settings=settings)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    _timer.clear()


@contextmanager
def untimed() -> Iterator[None]:
    """For preparations that several tests share: they do not count as time of the one that comes first."""
    timer = dict(_timer)
    if timer:
        timer["item"].ihook.pytest_timeout_cancel_timer(item=timer["item"])
    try:
        yield
    finally:
        if timer:
            timer["item"].ihook.pytest_timeout_set_timer(**timer)
