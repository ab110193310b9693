"""Behaviour failures: their labels and severities, and the distinct errors behind many of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from .grouping import grouped
from .model import EvalCase

NO_FAILURE = "no failure"

GOOD_PERFORMANCE = "skipped_good_performance"
"""The label of a turn whose scores are so good that the judge is not asked for a failure (arksim's name)."""

NO_FAILURES = (NO_FAILURE, GOOD_PERFORMANCE)
"""The labels of turns without a failure."""

BehaviorSeverity = Literal["low", "medium", "high", "critical"]

SEVERITY: dict[str, BehaviorSeverity] = {
    "lack of specific information": "medium",
    "failure to ask for clarification": "medium",
    "disobey user request": "high",
    "repetition": "low",
    "false information": "critical",
    "unsafe action": "critical",
    "unsafe state": "critical",
}
"""The severity of each failure (arksim's ranking). Any other label counts as medium."""

AGENT_BEHAVIOR_LABELS = (*(label for label in SEVERITY if not label.startswith("unsafe")), NO_FAILURE)
"""The labels of `agent_behavior_failure`."""

TOOL_CALL_BEHAVIOR_LABELS = (*SEVERITY, NO_FAILURE)
"""The labels of `tool_call_behavior_failure`."""

FAILURE_METRICS = ("agent_behavior_failure", "tool_call_behavior_failure")
"""The evaluators whose labels are behaviour failures."""

RANK = {"critical": 0, "high": 1, "medium": 2, "low": 3}
"""Of severities, the worst first."""


def worst_first(labels: Iterable[str]) -> tuple[str, ...]:
    """`labels` from the most severe to those without a failure; equally severe ones stay in their order."""
    return tuple(sorted(labels, key=lambda label: 9 if label in NO_FAILURES else RANK[SEVERITY.get(label, "medium")]))


@dataclass(frozen=True, slots=True)
class BehaviorFailure:
    """A turn (from 1) of a conversation in which a judge saw a failure."""

    conversation: str
    turn: int
    label: str
    reason: str


@dataclass(frozen=True, slots=True)
class UniqueError:
    """One error, however often it happened: `description` is the reason of its first occurrence."""

    label: str
    description: str
    severity: BehaviorSeverity
    occurrences: tuple[tuple[str, int], ...]
    """(conversation, turn) of each, in the order given."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "description": self.description,
            "severity": self.severity,
            "occurrences": [{"conversation": conversation, "turn": turn} for conversation, turn in self.occurrences],
        }


def behavior_failures(
    conversation: str, turns: Iterable[EvalCase], metrics: Iterable[str] = FAILURE_METRICS
) -> list[BehaviorFailure]:
    """The failures in the results of the turns, in order; turns without a judged result have none."""
    metrics = set(metrics)
    return [
        BehaviorFailure(conversation, number, result.label, result.reason)
        for number, turn in enumerate(turns, start=1)
        for result in turn.results
        if result.evaluator in metrics and result.label not in (None, *NO_FAILURES)
    ]


def unique_errors(failures: Iterable[BehaviorFailure]) -> list[UniqueError]:
    """Group failures of one label with equivalent reasons, worst first, then the most frequent.

    Reasons are equivalent if they differ only in case, punctuation, white space, numbers, identifiers that contain
    digits, or quoted text. Equivalent reasons of several metrics in one turn are one occurrence.
    """
    groups = grouped(((failure.label, normalised(failure.reason)), failure) for failure in failures)
    errors = [
        UniqueError(
            label,
            group[0].reason,
            SEVERITY.get(label, "medium"),
            tuple(dict.fromkeys((failure.conversation, failure.turn) for failure in group)),
        )
        for (label, _), group in groups.items()
    ]
    return ordered(errors)


def ordered(errors: Iterable[UniqueError]) -> list[UniqueError]:
    """Worst first, then the most frequent; equal ones stay in their order."""
    return sorted(errors, key=lambda error: (RANK[error.severity], -len(error.occurrences)))


def normalised(reason: str) -> str:
    """`reason` without the parts that differ between occurrences."""
    text = re.sub(r"\"[^\"]*\"|“[^“”]*”|`[^`]*`|(?<!\w)'[^']*'(?!\w)", " quoted ", reason.casefold())
    text = re.sub(r"(?<![\w-])[\w-]*\d[\w.:-]*", " # ", text)
    return " ".join(re.sub(r"[^\w#]+", " ", text).split())
