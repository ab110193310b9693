"""`helpfulness`, `coherence`, `relevance`, `verbosity` and `faithfulness`: the quality of an answer, 1 to 5."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..model import EvalCase
from ..registry import register
from .base import GradedEvaluator
from .transcript import turn_data


@dataclass(frozen=True, kw_only=True)
class _Quality(GradedEvaluator):
    """A grade from 1 to 5 for one answer; 3, the middle, passes unless a suite says otherwise."""

    scale: ClassVar[tuple[float, float]] = (1.0, 5.0)
    needs: ClassVar[tuple[str, ...]] = ("user_text", "response_text")

    threshold: float | None = 3.0

    def data(self, case: EvalCase) -> Mapping[str, str]:
        return turn_data(case)


@register
class Helpfulness(_Quality):
    """How far the answer helps the user with the request: 1 not at all, 5 fully."""

    name: ClassVar[str] = "helpfulness"


@register
class Coherence(_Quality):
    """How consistent the answer is, in itself and with earlier turns: 1 contradicts itself, 5 flows."""

    name: ClassVar[str] = "coherence"


@register
class Relevance(_Quality):
    """How relevant the answer is to the request: 1 about something else, 5 entirely to the point."""

    name: ClassVar[str] = "relevance"


@register
class Verbosity(_Quality):
    """How concise the answer is: 1 long-winded, 5 concise."""

    name: ClassVar[str] = "verbosity"


@register
class Faithfulness(_Quality):
    """How far the answer keeps to the given `knowledge`: 1 contradicts it, 5 states nothing beyond it.

    Tool results of this and earlier turns count as knowledge too. Without `knowledge`: skipped.
    """

    name: ClassVar[str] = "faithfulness"
    needs: ClassVar[tuple[str, ...]] = ("user_text", "response_text", "knowledge")

    def data(self, case: EvalCase) -> Mapping[str, str]:
        return {"knowledge": case.knowledge or "", **turn_data(case)}
