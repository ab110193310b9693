"""Evaluators that a test registers are gone after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tool_call_evaluators import evaluator_names, registry


@pytest.fixture(autouse=True)
def _registry_as_it_was() -> Iterator[None]:
    before = {*evaluator_names()}
    yield
    for name in {*evaluator_names()} - before:
        registry.unregister(name)
