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
    """How far the answer helps the user: a judge's grade, from 1, not at all or misleading, to 5, all that was wanted.

    A helpful answer may be false: that is `faithfulness`. Source: ArkSim.

    Example:

        evaluators:
          - helpfulness: {threshold: 4}
    """


@register
class Coherence(_Quality):
    """How consistent the answer is, in itself and with earlier turns: a judge's grade from 1 to 5.

    A coherent answer may be wrong or useless. Source: ArkSim.

    Example:

        evaluators:
          - coherence: {threshold: 4}
    """


@register
class Relevance(_Quality):
    """How far the answer is about what was asked: a judge's grade, from 1, about something else, to 5, to the point.

    Whether the answer is true or complete does not count. Source: ArkSim.

    Example:

        evaluators:
          - relevance: {threshold: 4}
    """


@register
class Verbosity(_Quality):
    """How concise the answer is: a judge's grade, from 1, rambles, to 5, as short as the matter allows.

    An answer that is too short is not penalised: that is `helpfulness`. Source: ArkSim.

    Example:

        evaluators:
          - verbosity: {threshold: 4}
    """


@register
class Faithfulness(_Quality):
    """How far the answer keeps to what the agent knows: a judge's grade, from 1, contradicts it, to 5, adds nothing.

    It knows the `knowledge` of the case and the results of tools in this and earlier turns. Source: ArkSim.

    Example:

        evaluators:
          - faithfulness: {threshold: 4}
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
    """How far the answer means the same as the expected one: a judge's grade from 0 to 100, over 100.

    The expected answer is that of the case (`expect: {response: ...}`), else the option `expected`; JSON data stand for
    their text. With `criteria` the judge grades these instead, and an expected answer is only an example of a good one:
    one sentence makes a judged metric of your own. Without any the result is skipped. Source: UiPath.

    Example:

        evaluators:
          - llm_judge_output: {id: polite, criteria: The answer is polite and names no prices., threshold: 0.8}
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
    """How far the agent did what was expected, in words: a judge's grade from 0 to 100, over 100.

    The judge reads the messages, calls, results and reasoning of a turn and the turns before it, or of a conversation,
    and the definitions of the tools. The expectation is that of the case (`expect: {behavior: ...}`), else the option
    `expected_behavior`; with `criteria` it is not needed. Without any the result is skipped. Where the expected calls
    can be listed, `tool_trajectory` is exact and free. Source: UiPath.

    Example:

        evaluators:
          - llm_judge_trajectory: {expected_behavior: Looks the order up before it answers.}
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
