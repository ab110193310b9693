"""What the tests of the proxy share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
from a2a_eval_proxy.features.push import registry
from support.patience import PATIENCE_S

# A machine that stands still does so while the store is asked, too.
registry.STORE_S = PATIENCE_S

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

ON_EVERY_LOOP = {"test_staged_close", "test_http_client", "test_tls"}
"""Modules whose tests depend on how an event loop drives a protocol."""


@pytest.hookimpl(optionalhook=True)  # new in pytest-asyncio 1.4
def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    """`serve` runs on uvloop where there is one."""
    factories: dict[str, LoopFactory] = {"asyncio": asyncio.new_event_loop}
    if item.path.stem in ON_EVERY_LOOP:
        try:
            from uvloop import new_event_loop
        except ImportError:
            return factories
        factories["uvloop"] = new_event_loop
    return factories
