"""`forbidden_calls`: calls that must not be made, and what shows that they would have been seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..evaluator import Measurement, SkipEvaluation
from ..judged.base import MeaningEvaluator
from ..matching.arguments import MATCHER_SPELLINGS, MatcherLike, arguments_match, as_matcher, rule_for
from ..matching.explain import call_name, expected_call_text
from ..model import UNPROVEN, CallsUnseenError, EvalCase, EvalResult, ExpectedCall
from ..registry import register
from ..texts import counted, sentence
from ..tool_classes import named, patterns_of
from .comparing import CriteriaEvaluator, read_matcher


def unproven_reason(unproven: Sequence[Mapping[str, Any]]) -> str:
    """The reason of a skipped result, given its `unproven`."""
    tools = " or ".join(dict.fromkeys(one["name"] for one in unproven))
    return (
        f"no forbidden call was seen, but nothing shows that a call of {tools} would have been: no such tool was "
        "called, or is among the `tools` of the suite"
    )


@register
class ForbiddenCalls(CriteriaEvaluator, MeaningEvaluator):
    """The share of the prohibitions that the agent kept.

    A prohibition names a tool, a pattern such as `delete_*` or a class of tools (`reads`, `writes`). Without
    `arguments` it forbids every call; with them, calls whose arguments match.

    A prohibition counts as kept only if something shows that a forbidden call would have been seen: the tool is in the
    `tools` of the suite, or such a tool was called in the turn, before it in the conversation, or elsewhere in the run.
    Otherwise the result is skipped with the label `unproven`, and the run fails unless the suite tolerates it. A
    forbidden call that was seen fails the turn even if other calls are unknown.

    Details: `made`, the forbidden calls, `{position, name, prohibition}`; `controls`, what shows it, by prohibition;
    `unproven`.

    Example:

        tool_classes: {reads: [lookup_*], writes: [refund, cancel_*]}
        tools: [{name: delete_order}, {name: refund}]
        evaluators:
          - forbidden_calls: {forbidden_calls: [{name: "delete_*"}, {name: writes}]}
    """

    criterion = "forbidden_calls"
    spellings: ClassVar[Mapping[str, str]] = MATCHER_SPELLINGS

    forbidden_calls: Sequence[Mapping[str, Any] | ExpectedCall] | None = None
    """Prohibitions for all cases, each `{name, arguments}`, in addition to their own."""
    matcher: MatcherLike = "subset"
    """How arguments compare, as in `tool_trajectory`. `subset`: a forbidden call may have more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        read_matcher(self)

    def _not_measurable(self, case: EvalCase) -> EvalResult | None:
        return None  # a forbidden call counts, even where there may be others

    def measure(self, case: EvalCase) -> Measurement:
        prohibitions = self._prohibitions(case)
        if not prohibitions:
            raise SkipEvaluation("not given: forbidden_calls is empty")
        calls = case.captured_calls
        made: list[dict[str, Any]] = []
        problems, unknown, broken = [], [], set[int]()
        for index, forbidden in enumerate(prohibitions):
            is_named = named([forbidden.name], case.tool_classes)
            for position, call in enumerate(calls):
                if not is_named(call.name):
                    continue
                if call.arguments is None and forbidden.arguments is not None:
                    unknown.append(f"the arguments of {call_name(position, calls)}: not seen")
                elif arguments_match(
                    forbidden.arguments,
                    call.arguments_for(forbidden.arguments),
                    rule_for(as_matcher(self.matcher), call.name),
                ):
                    broken.add(index)
                    text = expected_call_text(forbidden)
                    made.append({"position": position + 1, "name": call.name, "prohibition": text})
                    problems.append(f"{call_name(position, calls)} is forbidden: {text}")
        details: dict[str, Any] = {"made": made}
        kept = len(prohibitions) - len(broken)
        summary = f"{kept} of {counted(len(prohibitions), 'prohibition')} kept"
        if broken:
            return Measurement(kept / len(prohibitions), sentence(summary, problems), details)
        if unknown or case.calls_unseen is not None:
            raise CallsUnseenError(unknown[0] if unknown else str(case.calls_unseen))
        details["controls"], unproven = {}, []
        for forbidden in prohibitions:
            if control := self._control(forbidden, case):
                details["controls"][expected_call_text(forbidden)] = control
            else:
                unproven.append(forbidden)
        if unproven:
            left = [{"name": item.name, **patterns_of(item.name, case.tool_classes)} for item in unproven]
            raise SkipEvaluation(unproven_reason(left), UNPROVEN, {UNPROVEN: left})
        return Measurement(1.0, sentence(summary, []), details)

    def _prohibitions(self, case: EvalCase) -> Sequence[ExpectedCall]:
        """Those of the option and of the case. Raises SkipEvaluation without any."""
        if case.forbidden_calls and self.forbidden_calls:
            return [*self.forbidden_calls, *case.forbidden_calls]  # type: ignore[list-item]  # read by read_criteria
        found: Sequence[ExpectedCall] = case.forbidden_calls or self._criteria_of(case)
        return found

    def _control(self, forbidden: ExpectedCall, case: EvalCase) -> str:
        """What shows that a call would have been seen; "" for nothing."""
        is_named = named([forbidden.name], case.tool_classes)
        for tool in case.tools or ():
            if is_named(tool.name):
                return f"{tool.name} is among the tools"
        for turn in (case, *case.history, *(case.turns or ())):
            for call in turn.captured_calls:
                if is_named(call.name):
                    return f"a call of {call.name} was seen"
        return ""
