"""The base of evaluators that compare with expected values: a judge decides what `{$same: text}` accepts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..evaluator import FAILURES, SyncEvaluator
from ..judge.panel import Poll, judge_details, spread
from ..judge.question import JudgeError, total
from ..matching.placeholders import SAME, Texts, by_meaning
from ..model import EvalCase, EvalResult
from .base import JudgeableEvaluator, Ruling, rulings, rulings_schema, shares

MAX_PAIRS = 100
"""Maximum number of pairs of texts that a judge compares for one result."""


@dataclass(frozen=True, kw_only=True)
class MeaningEvaluator(JudgeableEvaluator, SyncEvaluator):
    """Base of deterministic evaluators whose expected values may say `{$same: text}`.

    Equal texts need no judge. Without one that is asked, as in `evaluate` of a single evaluator, texts that differ make
    the result errored. Details where a judge decided: `same`, a list of `{expected, actual, same, reason}`, and `judge`
    as of every judged evaluator.
    """

    prompt = "same_meaning"

    async def evaluate_by_meaning(self, case: EvalCase) -> EvalResult:
        """As `evaluate`, with a judge that decides which texts mean the same: all of them in one question."""
        decided: dict[Texts, Ruling] = {}
        polls: list[Poll] = []
        while True:
            undecided: dict[Texts, None] = {}
            with by_meaning({texts: ruling.passed for texts, ruling in decided.items()}, undecided):
                result = self.evaluate(case)
            if not undecided:
                break
            try:
                decided |= await self._asked([*undecided], polls)
            except FAILURES as error:  # a custom judge may raise anything
                if isinstance(error, JudgeError):
                    error.costing(total([error.usage, *(one.usage for poll in polls for one in poll.answers)]))
                return self._failed(error)
        if not polls:
            return result
        same = [
            {"expected": expected, "actual": actual, "same": ruling.passed, "reason": ruling.reason}
            for (expected, actual), ruling in decided.items()
        ]
        judge = judge_details(polls, max(spread(shares(poll)) for poll in polls)) | {"key": self.judge_key}
        return replace(result, details={**result.details, SAME: same, "judge": judge})

    async def _asked(self, pairs: Sequence[Texts], polls: list[Poll]) -> dict[Texts, Ruling]:
        """Raises JudgeError, and ValueError for too many pairs."""
        if len(pairs) > MAX_PAIRS:
            raise ValueError(f"$same: there are {len(pairs):,} pairs of texts to compare, of which {MAX_PAIRS} may be")
        named = {f"pair_{number}": texts for number, texts in enumerate(pairs, start=1)}
        lines = [
            json.dumps({name: {"expected": expected, "actual": actual}}, ensure_ascii=False)
            for name, (expected, actual) in named.items()
        ]
        polls += await self._ask_each([{"pairs of texts": "\n".join(lines)}], rulings_schema(named))
        found = rulings(polls[-1])
        return {texts: found[name] for name, texts in named.items()}
