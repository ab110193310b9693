"""The cost of judges' answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of answers. Tokens are None if the judge did not report them, `cost` also without prices.

    `cost` is in the currency of the prices. `requests` counts the requests that may be billed: every answered one,
    repairs included, and every one without an answer (`unanswered`: a timeout, a broken connection), whose tokens
    are unknown. Refused requests are not billed.
    """

    requests: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost: float | None = 0.0
    unanswered: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.completion_tokens, other.completion_tokens),
            _sum(self.cost, other.cost),
            self.unanswered + other.unanswered,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form; without `unanswered` if it is 0."""
        return {name: value for name, value in asdict(self).items() if name != "unanswered" or value}


def total(usages: Iterable[Usage]) -> Usage:
    """The sum; that of no usages is zero, not unknown."""
    return sum(usages, start=Usage())


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other
