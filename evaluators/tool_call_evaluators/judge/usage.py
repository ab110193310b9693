"""The cost of judges' answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of answers. Tokens are None if the judge did not report them, `cost` also without prices.

    `cost` is in the currency of the prices. `requests` counts answered requests, repairs included.
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
        return asdict(self)


def total(usages: Iterable[Usage]) -> Usage:
    """The sum; that of no usages is zero, not unknown."""
    return sum(usages, start=Usage())


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other
