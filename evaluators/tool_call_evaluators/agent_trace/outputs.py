"""Builds a case from the maps of a Dokimos test case: actual outputs, expected outputs and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import EvalCase, json_text

NO_CALLS = "the outputs contain no toolCalls"


def eval_test_case(
    input: str | None = None,  # noqa: A002  # the name in Dokimos
    actual_outputs: Mapping[str, Any] | None = None,
    expected_outputs: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> EvalCase:
    """A case from maps with Dokimos' keys.

    `actual_outputs`: `output`, `toolCalls`, `reasoningSteps`. `expected_outputs`: `output`, `toolCalls`. `metadata`:
    `tools`, `tasks`, `constraints`. Other keys are ignored. Without actual `toolCalls` the calls are unknown, and
    evaluators that read them are skipped. Raises ValueError as EvalCase does.
    """
    about = metadata or {}
    tasks = about.get("tasks")
    return EvalCase(
        user_text=input,
        **output_fields(actual_outputs or {}),
        **expected_fields(expected_outputs or {}),
        tools=about.get("tools"),
        tasks=(tasks,) if isinstance(tasks, str) else tasks,
        constraints=about.get("constraints"),
    )


def output_fields(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The actual outputs by their names in EvalCase."""
    calls = outputs.get("toolCalls")
    return {
        "tool_calls": calls,
        "calls_unseen": NO_CALLS if calls is None else None,
        "response_text": json_text(outputs.get("output")),
        "reasoning_steps": outputs.get("reasoningSteps") or None,
    }


def expected_fields(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The expected outputs by their names in EvalCase."""
    return {"expected_tool_calls": outputs.get("toolCalls"), "expected_response": outputs.get("output")}
