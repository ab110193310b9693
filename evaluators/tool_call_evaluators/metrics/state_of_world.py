"""`state_of_world`: whether what a probe saw afterwards is as expected."""

from __future__ import annotations

from ..evaluator import Measurement, SkipEvaluation
from ..judged.base import MeaningEvaluator
from ..matching.arguments import MATCHER_SPELLINGS, MatcherLike, as_matcher, is_text, value_differences
from ..model import EvalCase
from ..registry import register
from ..texts import json_text, sentence
from .comparing import read_matcher

NOT_PROBED = "the world was not probed: `run` does that, as soon as the agent has answered"


class ProbeError(Exception):
    """The probe failed, so that nothing is known of the world; the message says how."""


@register
class StateOfWorld(MeaningEvaluator):
    """Whether the agent left the world as expected: 1 or 0.

    `run` looks at the world after each turn, and each case, with `expect: {state_of_world: ...}`: it sends an HTTP
    request, runs a command or calls a Python function. What it sees is compared with `equals`, which may be or contain
    placeholders. If the probe fails, the result is errored, which says nothing about the agent; where nothing was
    probed, it is skipped. Of a case, it needs the option `scope: conversation`.

    Details: `seen`; `differences`, a list of `{path, problem, expected, actual}`.

    Example:

        suite: desk
        evaluators: [{state_of_world: {matcher: subset}}]
        cases:
          - id: refund
            turns:
              - user: Refund order ORD-1002, please.
                expect:
                  state_of_world: {http: {url: "http://127.0.0.1:8000/orders/ORD-1002"}, equals: {status: refunded}}
    """

    needs = ("expected_world",)
    spellings = MATCHER_SPELLINGS

    matcher: MatcherLike = "exact"
    """How objects compare: `exact`, `subset` (the world may have more), `superset` (fewer), or options."""

    def __post_init__(self) -> None:
        super().__post_init__()
        read_matcher(self)

    def measure(self, case: EvalCase) -> Measurement:
        if case.world is None:
            raise SkipEvaluation(NOT_PROBED)
        if "error" in case.world:
            raise ProbeError(case.world["error"])
        seen, expected = case.world["seen"], (case.expected_world or {})["equals"]
        given = json_text(seen) if is_text(expected) else seen
        differences = value_differences(expected, given, as_matcher(self.matcher), "world")
        reason = sentence("The world is not as expected", [*map(str, differences)])
        return Measurement(
            float(not differences),
            reason if differences else "The world is as expected.",
            {"seen": seen, "differences": [difference.to_dict() for difference in differences]},
        )
