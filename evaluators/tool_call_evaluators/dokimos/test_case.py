"""Builds a case from the maps of a Dokimos test case: actual outputs, expected outputs and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import EvalCase
from ..texts import json_text

NO_CALLS = "the outputs contain no toolCalls"
_COMPARED = ("name", "arguments", "args")


def eval_test_case(
    input: str | None = None,  # noqa: A002  # the name in Dokimos
    actual_outputs: Mapping[str, Any] | None = None,
    expected_outputs: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> EvalCase:
    """A case from maps with Dokimos' keys.

    `actual_outputs`: `output`, `toolCalls`, `reasoningSteps`. `expected_outputs`: `output`, `toolCalls`. `metadata`:
    `tools`, `tasks`, `constraints`. Other keys are ignored. Expected arguments of null are empty. Without actual
    `toolCalls` the calls are unknown, and evaluators that read them are skipped. Raises ValueError as EvalCase does.
    """
    actual, expected, about = actual_outputs or {}, expected_outputs or {}, metadata or {}
    calls, tasks = actual.get("toolCalls"), about.get("tasks")
    return EvalCase(
        user_text=input,
        tool_calls=calls,
        calls_unseen=NO_CALLS if calls is None else None,
        response_text=json_text(actual.get("output")),
        reasoning_steps=actual.get("reasoningSteps") or None,
        expected_tool_calls=_expected(expected.get("toolCalls")),
        expected_response=expected.get("output"),
        tools=about.get("tools"),
        tasks=(tasks,) if isinstance(tasks, str) else tasks,
        constraints=about.get("constraints"),
    )


def _expected(calls: Any) -> Any:
    """The names and arguments of the expected calls, which Dokimos compares, with `{}` in place of null arguments."""
    if not isinstance(calls, list | tuple):
        return calls
    return [
        {key: {} if key == "arguments" and call[key] is None else call[key] for key in _COMPARED if key in call}
        if isinstance(call, Mapping)
        else call
        for call in calls
    ]
