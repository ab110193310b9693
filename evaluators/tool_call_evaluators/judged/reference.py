"""`llm_judge_output` and `llm_judge_trajectory`: the answer, or the way to it, against what was expected in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..evaluator import SkipEvaluation
from ..judge.prompt import Prompt
from ..model import EvalCase, json_text
from ..registry import register
from .base import GradedEvaluator
from .transcript import tools_text, turn_data, whole_data


@register
@dataclass(frozen=True, kw_only=True)
class LlmJudgeOutput(GradedEvaluator):
    """How far the answer means what the expected one means: 0 nothing of it, 1 the same.

    The judge's grade from 0 to 100, over 100. Expected is the case's `expected_response`, else the option
    `expected`; one that is no text stands for its JSON. `criteria` says in words what is to be graded instead,
    and then an expected answer is not needed. Neither: skipped.
    """

    name: ClassVar[str] = "llm_judge_output"
    spellings: ClassVar[Mapping[str, str]] = {"expected_output": "expected"}
    needs: ClassVar[tuple[str, ...]] = ("response_text",)
    prompt: ClassVar[str | Prompt] = "llm_judge_output"
    grades: ClassVar[tuple[int, int]] = (0, 100)

    threshold: float | None = 0.5
    expected: Any = None
    criteria: str | None = None

    def data(self, case: EvalCase) -> Mapping[str, str]:
        expected = json_text(self.expected if case.expected_response is None else case.expected_response)
        if expected is None and not self.criteria:
            raise SkipEvaluation("not given: expected_response, nor the options expected or criteria")
        data = turn_data(case)
        data.pop("tool calls", None)
        return data if expected is None else {**data, "expected answer": expected}

    def instructions(self) -> str:
        return self.criteria or ""


@register
@dataclass(frozen=True, kw_only=True)
class LlmJudgeTrajectory(GradedEvaluator):
    """How far the agent went the way it was expected to go: 0 not at all, 1 exactly so.

    The judge's grade from 0 to 100, over 100. The way is what was said and called, in a turn and the turns
    before it, or in a whole conversation. Expected is the case's
    `expected_behavior`, else the option of that name; `criteria` says in words what is to be graded instead, and
    then an expected behavior is not needed. Neither: skipped.
    """

    name: ClassVar[str] = "llm_judge_trajectory"
    reads_calls: ClassVar[bool] = True
    prompt: ClassVar[str | Prompt] = "llm_judge_trajectory"
    grades: ClassVar[tuple[int, int]] = (0, 100)

    threshold: float | None = 0.5
    expected_behavior: str | None = None
    criteria: str | None = None

    def data(self, case: EvalCase) -> Mapping[str, str]:
        expected = self.expected_behavior if case.expected_behavior is None else case.expected_behavior
        if expected is None and not self.criteria:
            raise SkipEvaluation("not given: expected_behavior, in the case or as an option, nor the option criteria")
        data = whole_data(case)
        if not data:
            raise SkipEvaluation("not given: user_text, response_text, tool_calls or turns")
        tools = {"tools": tools_text(case.tools)} if case.tools else {}
        return {**tools, **data} if expected is None else {**tools, **data, "expected behavior": expected}

    def instructions(self) -> str:
        return self.criteria or ""
