"""What judges' answers cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """What answers cost. Tokens are None where the judge did not report them, `cost` also where it has no prices.

    `cost` is in the currency of the prices. `requests` counts those that were answered, repairs included.
    """

    requests: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.completion_tokens, other.completion_tokens),
            _sum(self.cost, other.cost),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost": self.cost,
        }


def total(usages: Iterable[Usage]) -> Usage:
    """All of them together; no usage at all is zero, not unknown."""
    return sum(usages, start=Usage())


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other
