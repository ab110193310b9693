"""The test that runs in this process, its markers and its time limit (pytest-timeout)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_timer: dict[str, Any] = {}
"""What the running test's timer was set with, as long as it has one."""


_items: list[pytest.Item] = []
"""The running test. A program that imports tests, such as the bench, has none."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _items.append(item)
    try:
        return (yield)
    finally:
        _items.pop()


def require_marker(name: str) -> None:
    """Fail the running test if it is to run without what the marker stands for: `-m "not ..."` must leave it out."""
    if not _items or _items[-1].get_closest_marker(name):
        return
    if f"not {name}" in _items[-1].config.option.markexpr:
        pytest.fail(f"{_items[-1].nodeid} needs the marker {name!r}")


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
