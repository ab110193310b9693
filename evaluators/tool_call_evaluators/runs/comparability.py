"""Finds the metrics that two runs measured the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..model import CALLS_UNSEEN, EvalResult, Status

JUDGE_DETAILS = ("model", "prompt", "votes")
"""The keys of a result's `details.judge` on which its score depends."""


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A metric that cannot be compared between two runs, and the reason, which names the runs."""

    metric: str
    reason: str


def not_judged(
    before: Iterable[EvalResult], after: Iterable[EvalResult], names: tuple[str, str]
) -> tuple[NotJudged, ...]:
    """The metrics that only one run measured, or that both measured differently.

    An evaluator that errored everywhere, or for which the calls are unknown, counts as measured: that is a failure.
    """
    sides = _by_metric(before), _by_metric(after)
    found = []
    for metric in {**sides[0], **sides[1]}:
        left, right = (side.get(metric) for side in sides)
        if left is None or right is None:
            found.append(NotJudged(metric, f"only {names[right is not None]} measured it"))
        elif differing := _difference(left, right, names):
            found.append(NotJudged(metric, differing))
    return tuple(found)


def metrics_of(*results: Iterable[EvalResult]) -> set[str]:
    """The metrics that were measured or should have been: those not skipped everywhere."""
    return {result.evaluator for side in results for result in side if _measured(result)}


def _measured(result: EvalResult) -> bool:
    return result.status is not Status.SKIPPED or result.label == CALLS_UNSEEN


def _by_metric(results: Iterable[EvalResult]) -> dict[str, dict[str, set[str]]]:
    """The values in a run by metric and property of the measurement."""
    found: dict[str, dict[str, set[str]]] = {}
    for result in results:
        if not _measured(result):
            continue
        properties = found.setdefault(result.evaluator, {})
        if result.score is not None:
            for name, value in _yardstick(result).items():
                properties.setdefault(name, set()).add(str(value))
    return found


def _yardstick(result: EvalResult) -> dict[str, Any]:
    low, high = result.scale
    judge = result.details.get("judge")
    judge = judge if isinstance(judge, Mapping) else {}
    return {
        "evaluator version": result.version,
        "threshold": "none" if result.threshold is None else f"{result.threshold:g}",
        "scale": f"{low:g} to {high:g}",
        **{f"judge {name}": judge.get(name, "none") for name in JUDGE_DETAILS},
    }


def _difference(left: Mapping[str, set[str]], right: Mapping[str, set[str]], names: tuple[str, str]) -> str:
    """Empty if both agree, or if one has no score and so no known properties."""
    if not left or not right:
        return ""
    parts = [
        f"{name} {_listed(left[name])} in {names[0]}, {_listed(right[name])} in {names[1]}"
        for name in left
        if left[name] != right[name]
    ]
    return "; ".join(parts)


def _listed(values: Iterable[str]) -> str:
    return " and ".join(sorted(values))
