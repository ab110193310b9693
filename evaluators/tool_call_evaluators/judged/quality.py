"""Grades of an answer, and of an answer or a trajectory compared with a description of the expected one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..evaluator import SkipEvaluation, field_text
from ..model import EvalCase
from ..registry import register
from ..texts import json_text
from .base import GradedEvaluator, tools_text, turn_data, whole_data


@dataclass(frozen=True, kw_only=True)
class _Quality(GradedEvaluator):
    """A grade from 1 to 5 for one answer; 3, the middle, passes unless a suite says otherwise."""

    scale = (1.0, 5.0)
    needs: ClassVar[tuple[str, ...]] = ("user_text", "response_text")

    threshold: float | None = 3.0

    def data(self, case: EvalCase) -> Mapping[str, str]:
        return turn_data(case)


@register
class Helpfulness(_Quality):
    """How far the answer helps the user with the request: 1 not at all, 5 fully."""


@register
class Coherence(_Quality):
    """How consistent the answer is, in itself and with earlier turns: 1 contradicts itself, 5 flows."""


@register
class Relevance(_Quality):
    """How relevant the answer is to the request: 1 about something else, 5 entirely to the point."""


@register
class Verbosity(_Quality):
    """How concise the answer is: 1 long-winded, 5 concise."""


@register
class Faithfulness(_Quality):
    """How far the answer keeps to the given `knowledge`: 1 contradicts it, 5 states nothing beyond it.

    Tool results of this and earlier turns count as knowledge too. Without `knowledge`: skipped.
    """

    needs = ("user_text", "response_text", "knowledge")

    def data(self, case: EvalCase) -> Mapping[str, str]:
        return {"knowledge": case.knowledge or "", **turn_data(case)}


@dataclass(frozen=True, kw_only=True)
class _Reference(GradedEvaluator):
    """A grade from 0 to 100 for how far something is as expected."""

    grades = (0, 100)

    threshold: float | None = 0.5
    criteria: str | None = None
    """What the judge grades instead, in words."""

    def instructions(self) -> str:
        return self.criteria or ""


@register
class LlmJudgeOutput(_Reference):
    """How far the answer means the same as the expected one: 0 not at all, 1 the same.

    The judge's grade from 0 to 100, over 100. The expected answer is the case's `expected_response`, else
    the option `expected`; a value that is not a string is used as JSON. With `criteria`, which describes in words what
    to grade, no expected answer is needed. Without both: skipped.
    """

    reads = ("expected_response",)
    criterion = "expected"
    spellings: ClassVar[Mapping[str, str]] = {"expected_output": "expected"}
    needs = ("response_text",)

    expected: Any = None
    """The expected answer, for cases without one."""

    def data(self, case: EvalCase) -> Mapping[str, str]:
        expected = json_text(self.expected if case.expected_response is None else case.expected_response)
        if expected is None and not self.criteria:
            raise SkipEvaluation(f"not given: {field_text('expected_response')}, or the option expected or criteria")
        data = turn_data(case)
        data.pop("tool calls", None)
        return data if expected is None else {**data, "expected answer": expected}


@register
class LlmJudgeTrajectory(_Reference):
    """How far the trajectory is the expected one: 0 not at all, 1 exactly.

    The judge's grade from 0 to 100, over 100. The trajectory is the messages, calls and reasoning of a turn and
    the turns before it, or of a whole conversation. The expectation is the case's `expected_behavior`, else the option
    of that name. With `criteria`, which describes in words what to grade, it is not needed. Without both: skipped.
    """

    criterion = "expected_behavior"
    spellings: ClassVar[Mapping[str, str]] = {"expected_agent_behavior": "expected_behavior"}
    reads_calls = True

    expected_behavior: str | None = None
    """What the agent should do, in words, for cases that do not say."""

    def data(self, case: EvalCase) -> Mapping[str, str]:
        expected = self.expected_behavior if case.expected_behavior is None else case.expected_behavior
        if expected is None and not self.criteria:
            raise SkipEvaluation(
                f"not given: {field_text('expected_behavior')}, or the option expected_behavior or criteria"
            )
        data = whole_data(case, reasoning=True)
        if not data:
            raise SkipEvaluation("not given: user_text, response_text, tool_calls or turns")
        tools = {"tools": tools_text(case.tools)} if case.tools else {}
        return {**tools, **data} if expected is None else {**tools, **data, "expected behavior": expected}
