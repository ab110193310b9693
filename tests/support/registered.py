"""Evaluators that suites know for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tool_call_evaluators.evaluator import EvaluatorBase
from tool_call_evaluators.registry import register, unregister


@contextmanager
def registered(evaluator: type[EvaluatorBase]) -> Iterator[None]:
    register(evaluator)
    try:
        yield
    finally:
        unregister(evaluator.name)
