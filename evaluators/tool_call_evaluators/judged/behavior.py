"""`agent_behavior_failure`, `tool_call_behavior_failure` and `goal_completion`: how the agent behaved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ..behavior_failures import (
    AGENT_BEHAVIOR_LABELS,
    GOOD_PERFORMANCE,
    NO_FAILURE,
    SEVERITY,
    TOOL_CALL_BEHAVIOR_LABELS,
    worst_first,
)
from ..evaluator import Measurement, SkipEvaluation
from ..model import EvalCase, Status
from ..options import OptionError
from ..registry import register
from .base import GradedEvaluator, LabelledEvaluator, tools_text, turn_data, turns_text


@dataclass(frozen=True, kw_only=True)
class _BehaviorFailure(LabelledEvaluator):
    """1 for `no failure`, 0 for any other label; its severity is in the details."""

    good_label = NO_FAILURE

    async def measure(self, case: EvalCase) -> Measurement:
        tools = tools_text(case.tools or ()) if self.reads_calls else None
        data = {"user goal": case.user_goal, "knowledge": case.knowledge, "tools": tools or None}
        given = {label: text for label, text in data.items() if text is not None}
        found = await self.labelled({**given, **turn_data(case, reasoning=self.reads_calls)})
        return replace(found, details={"severity": SEVERITY.get(found.label or ""), **found.details})


@register
class AgentBehaviorFailure(_BehaviorFailure):
    """Whether the answer is a failure, and which, as a judge labels it: 1 for `no failure`, else 0.

    The labels are `false information` (critical), `disobey user request` (high), `lack of specific information` and
    `failure to ask for clarification` (medium), and `repetition` (low). A gate can forbid one in any turn.

    With `ask_below`, a turn whose other scores are all good is 1 with the label `skipped_good_performance`, and no
    judge is asked. A turn without scores, or with an evaluator that errored, is asked about.

    Details: `severity` of the label, null for no failure. Source: ArkSim.

    Example:

        evaluators:
          - helpfulness
          - agent_behavior_failure: {ask_below: 0.6, votes: 3}
    """

    version = "2"
    needs = ("user_text", "response_text")
    labels: ClassVar[Sequence[str]] = worst_first(AGENT_BEHAVIOR_LABELS)
    forbiddable: ClassVar[Sequence[str]] = worst_first(TOOL_CALL_BEHAVIOR_LABELS)
    """The labels that a gate may name: ArkSim has one list for both metrics of behaviour."""

    ask_below: float | None = None
    """Ask only if a score of the turn is below this share, 0 to 1, of the top of its scale; arksim's is 0.6. None: ask
    about every turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ask_below is not None and not 0 <= self.ask_below <= 1:
            problem = f"option ask_below must lie between 0 and 1; got {self.ask_below}"
            raise OptionError(f"{self.name}: {problem}", "ask_below")

    @property
    def reads_results(self) -> bool:  # type: ignore[override]  # only with the option
        return self.ask_below is not None

    async def measure(self, case: EvalCase) -> Measurement:
        if self.ask_below is not None and _performs(case, self.ask_below):
            reason = f"Not asked: every score of the turn reaches {self.ask_below:.0%} of its maximum."
            return Measurement(1.0, reason, {"severity": None}, GOOD_PERFORMANCE)
        return await super().measure(case)


def _performs(case: EvalCase, share: float) -> bool:
    """Whether all scores of a turn reach this share of their maximum. Labels with a score are no scores."""
    scores = [(result.score, result.scale[1]) for result in case.results if result.label is None and result.measured]
    errored = any(result.status is Status.ERRORED for result in case.results)
    return bool(scores) and not errored and all(score >= share * top for score, top in scores if score is not None)


@register
class ToolCallBehaviorFailure(_BehaviorFailure):
    """Whether the tool calls are a failure, and which, as a judge labels them: 1 for `no failure`, else 0.

    It covers the choice of tools, their arguments, whether the calls were needed, the use of their results, and safety.
    The labels are those of `agent_behavior_failure` and `unsafe action` and `unsafe state`, which are critical. A turn
    without calls has no failure, and no judge is asked.

    Details: `severity` of the label, null for no failure. Source: ArkSim.

    Example:

        evaluators:
          - tool_call_behavior_failure
    """

    reads_calls = True
    needs = ("user_text",)
    labels: ClassVar[Sequence[str]] = worst_first(TOOL_CALL_BEHAVIOR_LABELS)

    async def measure(self, case: EvalCase) -> Measurement:
        if not case.tool_calls:
            return Measurement(1.0, "No tool was called.", {"severity": None}, NO_FAILURE)
        return await super().measure(case)


@register
class GoalCompletion(GradedEvaluator):
    """How far a conversation reached the user's goal: a judge's grade from 1 to 5, as (grade - 1) / 4.

    The judge reads messages, calls and their results; a claim of success counts only if nothing contradicts it. A
    single turn is the last of its conversation, after its `history`. Source: ArkSim.

    Example:

        evaluators:
          - goal_completion: {threshold: 0.75}
    """

    scope = "conversation"
    needs = ("user_goal",)

    threshold: float | None = 0.5

    def data(self, case: EvalCase) -> Mapping[str, str]:
        turns = case.turns and (*case.history, *case.turns)
        if turns is None and turn_data(case):
            turns = (*case.history, case)
        if not turns:
            raise SkipEvaluation("the conversation has no turns")
        return {"user goal": case.user_goal or "", "conversation": turns_text(turns)}
