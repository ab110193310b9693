"""The tokens and the cost of a turn's model calls, as far as spans state them. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from a2a_tool_capture.spans.grouping import Lineage
from a2a_tool_capture.spans.model import Span

_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "cost": ("gen_ai.usage.cost", "llm.cost.total", "operation.cost"),
}
"""Of OpenTelemetry's conventions and their earlier form, of OpenInference, and of Logfire, in this preference."""

_RESPONSE = "gen_ai.response.id"


def usage_of(spans: Iterable[Span]) -> dict[str, int | float] | None:
    """`input_tokens`, `output_tokens` and `cost` of the spans of one turn, those that are stated; None without any.

    A span of an agent often repeats the sum of its model calls: a span counts if no span below it states the same. Two
    libraries may report one response in spans next to each other: of those with the same id of a response, the spans of
    one library count.
    """
    known = {span.key: span for span in spans}
    lineage = Lineage(known.values())
    found = {}
    for name, attributes in _ATTRIBUTES.items():
        numbers = ((key, _number(span.attributes, attributes)) for key, span in known.items())
        values = {key: value for key, value in numbers if value is not None}
        if values:
            repeated = _above(values, lineage)
            found[name] = _sum((known[key], value) for key, value in values.items() if key not in repeated)
    return found or None


def _sum(values: Iterable[tuple[Span, int | float]]) -> int | float:
    """The sum, for each id of a response that of the scope with the largest."""
    by_response: dict[Hashable, dict[str, int | float]] = {}
    for span, value in values:
        response = span.attributes.get(_RESPONSE)
        scopes = by_response.setdefault(response if isinstance(response, str) and response else span.key, {})
        scopes[span.scope] = scopes.get(span.scope, 0) + value
    return sum(max(scopes.values()) for scopes in by_response.values())


def _above(keys: Iterable[tuple[str, str]], lineage: Lineage) -> set[tuple[str, str]]:
    """The spans above any of these."""
    above: set[tuple[str, str]] = set()
    for key in keys:
        for span in lineage.ancestors(key):
            if span.key in above:  # and so are those above it
                break
            above.add(span.key)
    return above


def _number(attributes: Mapping[str, Any], names: Iterable[str]) -> int | float | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
            return value
    return None
