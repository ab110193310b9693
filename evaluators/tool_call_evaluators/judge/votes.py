"""One verdict from several votes: the median score, or the most frequent label or ruling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median


def middle(scores: Sequence[float]) -> float:
    """The median of at least one score; of an even number, the mean of the middle two."""
    return float(median(scores))


def spread(scores: Sequence[float]) -> float:
    """Highest minus lowest of at least one score; 0 where all agree."""
    return max(scores) - min(scores)


def most_given(labels: Sequence[str], worst_first: Sequence[str]) -> str:
    """The most frequent label; of several, the first in `worst_first`, which contains all labels."""
    counts = Counter(labels)
    return max(counts, key=lambda label: (counts[label], -worst_first.index(label)))


def dissent(labels: Sequence[str], chosen: str) -> float:
    """The share of labels (at least one) that differ from `chosen`."""
    return sum(label != chosen for label in labels) / len(labels)


def majority(votes: Sequence[Mapping[str, bool]]) -> dict[str, bool]:
    """For each key of the votes, which have equal keys: whether more than half are true."""
    return {key: sum(vote[key] for vote in votes) * 2 > len(votes) for key in votes[0]}
