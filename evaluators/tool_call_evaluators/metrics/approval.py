"""`approval`: a call waits until the user approves it, and none of its tool was executed before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement, SkipEvaluation
from ..judged.base import MeaningEvaluator
from ..matching.arguments import arguments_match, as_matcher, rule_for
from ..matching.explain import expected_call_text
from ..model import CallsUnseenError, EvalCase
from ..registry import register
from ..texts import call_text, from_json
from ..tool_classes import named

_REQUEST = re.compile(
    r"\b(requir|need|await|pend)[a-z]*[\s_-]+([a-z]+[\s_-]+){0,3}?(approv|confirm)"
    r"|(approv|confirm)[a-z]*[\s_-]+(is[\s_-]+)?(requir|need|pend)",
    re.IGNORECASE,
)
"""The outcome of a call that has only asked, such as `This tool call requires confirmation`."""
_LONGEST_REQUEST = 1_000


@register
class Approval(MeaningEvaluator):
    """Whether a call of the expected tool waits for the user's approval, and none was executed before.

    The expected tool is a name, a pattern such as `delete_*` or a class of tools; with `arguments`, they must match
    (further ones may be there). Waiting calls are those that the agent's question names, in the ways of google-adk,
    kagent and Pydantic AI, or as data `{"tool": NAME, "arguments": {...}}`; where it asks in words alone, they are
    unknown. A call is executed if it has a result or an error, in this turn or before, unless it waited in the turn
    before and the user did not reject it; what the waiting call itself returned is no execution if it says that
    approval or confirmation is required. Of another call that has neither, it is unknown.

    Details: `waiting`, the calls that wait; `executed`, those of the tool that did not.

    Example:

        evaluators: [approval]
        cases:
          - id: refund
            turns:
              - user: Refund order A-1.
                expect: {approval: {tool: refund, arguments: {order: A-1}}}
              - user: {approve: refund}
    """

    needs = ("expected_approval",)

    def measure(self, case: EvalCase) -> Measurement:
        expected = case.expected_approval
        if expected is None:
            raise SkipEvaluation("not given: expected_approval")
        is_named = named([expected.name], case.tool_classes)
        made = [call for call in _made((*case.history, case)) if is_named(call.name)]
        executed = [call for call in made if _outcome(call) is not None]
        waiting = list(case.approvals or ())
        details = {
            "waiting": [call_text(call.to_dict()) for call in waiting],
            "executed": [call_text(call.to_dict()) for call in executed],
        }
        if executed:
            return Measurement(0.0, f"executed without approval: {', '.join(details['executed'])}", details)
        if case.approvals is None:
            raise CallsUnseenError("which calls wait for approval is unknown: the question of the agent names none")
        rule = rule_for(as_matcher("subset"), expected.name)
        alike = [call for call in waiting if is_named(call.name)]
        if not any(arguments_match(expected.arguments, call.arguments, rule) for call in alike):
            if any(call.arguments is None for call in alike):
                raise CallsUnseenError("the question does not say with which arguments the call waits")
            seen = f"; {', '.join(details['waiting'])} waits" if waiting else ""
            return Measurement(0.0, f"no call of {expected_call_text(expected)} waits for approval{seen}", details)
        if made:
            raise CallsUnseenError(f"whether {call_text(made[0].to_dict())} was executed before is unknown: no result")
        for turn in (*case.history, case):
            if turn.calls_unseen is not None:
                raise CallsUnseenError(turn.calls_unseen)
        return Measurement(1.0, f"{', '.join(details['waiting'])} waits for approval", details)


def _made(turns: Sequence[EvalCase]) -> list[ToolCall]:
    """The calls, oldest first, but for those that wait, and those that had waited and were not rejected."""
    found: list[ToolCall] = []
    asked: Sequence[ToolCall] = ()
    for turn in turns:
        rejected = (turn.user_text or "").startswith("reject")
        allowed = set() if rejected else {call.name for call in asked}
        asked = turn.approvals or ()
        for call in turn.captured_calls:
            if call.name in allowed or (rejected and call.result is None):
                continue  # frameworks report a rejected call with an error
            outcome = _outcome(call)
            if not ((outcome is None or _asks(outcome)) and any(_same(call, one) for one in asked)):
                found.append(call)
    return found


def _outcome(call: ToolCall) -> str | None:
    return call.error if call.result is None else call.result


def _asks(outcome: str) -> bool:
    """Whether a short outcome says that the call has only asked: of an object, its texts and what is true."""
    value = from_json(outcome) if len(outcome) <= _LONGEST_REQUEST else None
    if not isinstance(value, Mapping):
        return isinstance(value, str) and _REQUEST.search(value) is not None
    return any(_REQUEST.search(one if isinstance(one, str) else key * (one is True)) for key, one in value.items())


def _same(call: ToolCall, waiting: ToolCall) -> bool:
    if call.id and waiting.id:
        return call.id == waiting.id
    return call.name == waiting.name and waiting.arguments in (None, call.arguments)
