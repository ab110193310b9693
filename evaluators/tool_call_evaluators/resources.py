"""What a turn took: time, tokens and their cost. Unknown amounts are missing, never 0.

The resources of a turn are a map with those of these keys that are known: `seconds`, `first_event_seconds`,
`input_tokens`, `output_tokens`, `total_tokens`, `cost`, `models` (tokens by the name of the model), `source` (where the
tokens were read) and `at_least` (true: the source shows only a part of the tokens).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias

from a2a_tool_capture.models import epoch_seconds

from .suite_fields import FieldError, at, checked_object, kind, number

Resources: TypeAlias = Mapping[str, Any]


def resources_of(
    started_at: float | None, first_event_at: float | None, ended_at: float | None, usage: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The resources of a turn, given its times in seconds since the epoch and the usage of the agent's models."""
    found = dict(usage) if usage else {}
    if started_at is not None and ended_at is not None:
        found["seconds"] = max(0.0, ended_at - started_at)
    if started_at is not None and first_event_at is not None:
        found["first_event_seconds"] = max(0.0, first_event_at - started_at)
    if usage and "total_tokens" not in usage and {"input_tokens", "output_tokens"} <= usage.keys():
        found["total_tokens"] = found["input_tokens"] + found["output_tokens"]
    return found


def resources_in(turn: Mapping[str, Any]) -> dict[str, Any]:
    """The resources of a turn in its JSON form."""
    started_at, first_event_at, ended_at = (
        None if (moment := turn.get(name)) is None else epoch_seconds(moment)
        for name in ("started_at", "first_event_at", "ended_at")
    )
    return resources_of(started_at, first_event_at, ended_at, turn.get("usage"))


def amount_in(resources: Resources, name: str) -> float | None:
    """The amount of that name: a number of at least 0 that is finite, else it is not known."""
    value = resources.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < math.inf else None


class Price(NamedTuple):
    """Of a model, for a million tokens. Cached tokens are priced as input."""

    input: float
    output: float


Prices: TypeAlias = Mapping[str, Price]
"""By the names of models, or by patterns such as `gpt-4o-*`."""

PRICES: Prices = {
    "claude-3-5-haiku": Price(0.8, 4),
    "claude-3-7-sonnet": Price(3, 15),
    "claude-3-haiku": Price(0.25, 1.25),
    "claude-haiku-4-5": Price(1, 5),
    "claude-opus-4": Price(15, 75),
    "claude-opus-4-1": Price(15, 75),
    "claude-opus-4-5": Price(5, 25),
    "claude-sonnet-4": Price(3, 15),
    "claude-sonnet-4-6": Price(3, 15),
    "gemini-2.0-flash": Price(0.1, 0.4),
    "gemini-2.0-flash-lite": Price(0.075, 0.3),
    "gemini-2.5-flash": Price(0.3, 2.5),
    "gemini-2.5-flash-lite": Price(0.1, 0.4),
    "gpt-3.5-turbo": Price(0.5, 1.5),
    "gpt-4-turbo": Price(10, 30),
    "gpt-4.1": Price(2, 8),
    "gpt-4.1-mini": Price(0.4, 1.6),
    "gpt-4.1-nano": Price(0.1, 0.4),
    "gpt-4o": Price(2.5, 10),
    "gpt-4o-mini": Price(0.15, 0.6),
    "gpt-5": Price(1.25, 10),
    "gpt-5-mini": Price(0.25, 2),
    "gpt-5-nano": Price(0.05, 0.4),
    "gpt-5.1": Price(1.25, 10),
    "gpt-5.2": Price(1.75, 14),
    "o3": Price(2, 8),
    "o3-mini": Price(1.1, 4.4),
    "o4-mini": Price(1.1, 4.4),
}
"""US dollars, as in genai-prices 0.2.3 of November 2026, without models whose price depends on the length of the
prompt."""

_VERSION = re.compile(r"(-\d{4}-\d{2}-\d{2}|-\d{8}|-latest|-00\d)$")


def price_of(model: str, prices: Prices) -> Price | None:
    """The price of a model, with or without its provider (`openai/gpt-4o`) and its date (`gpt-4o-2024-08-06`).

    A name goes before a pattern, and of patterns the first one.
    """
    bare = model.rpartition("/")[2]
    names = (model, bare, _VERSION.sub("", bare))
    exact = (prices[name] for name in names if name in prices)
    patterns = (price for pattern, price in prices.items() if any(fnmatchcase(name, pattern) for name in names))
    return next(exact, None) or next(patterns, None)


def cost_of(resources: Resources, prices: Prices) -> float | str:
    """The cost that is stated, else that of the tokens; a string says why it is unknown."""
    if (stated := amount_in(resources, "cost")) is not None:
        return stated
    used = {name: amount_in(resources, name) for name in ("input_tokens", "output_tokens")}
    if None in used.values():
        return "the tokens are not known"
    models: dict[str, Mapping[str, Any]] = dict(resources.get("models") or {})
    rest = {
        name: (total or 0) - sum(amount_in(tokens, name) or 0 for tokens in models.values())
        for name, total in used.items()
    }
    if any(rest.values()):
        models[""] = rest  # a pattern such as * may have a price for these
    cost = 0.0
    for model, tokens in models.items():
        if (price := price_of(model, prices)) is None:
            return f"no price is known for the model {model}" if model else "the model of the tokens is not known"
        read, wrote = (amount_in(tokens, name) or 0 for name in ("input_tokens", "output_tokens"))
        cost += (read * price.input + wrote * price.output) / 1e6
    return cost


def read_prices(value: Any) -> dict[str, Price]:
    """Prices from their JSON form, `{model: {input, output}}`. Raises FieldError."""
    return {model: at(model, _price, price) for model, price in checked_object(value).items()}


def _price(value: Any) -> Price:
    if isinstance(value, Price):
        return value
    entries = checked_object(value, Price._fields, Price._fields)
    return Price(*(at(name, _amount, entries[name]) for name in Price._fields))


def _amount(value: Any) -> float:
    if not 0 <= number(value) < math.inf:
        raise FieldError(f"expected a number of at least 0, got {kind(value)}")
    return number(value)
