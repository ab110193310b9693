"""`budget`: whether a turn, or a conversation, stayed within limits of time, calls, tokens and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator
from ..model import CallsUnseenError, EvalCase
from ..options import check_limits
from ..registry import register
from ..resources import PRICES, amount_in, cost_of
from ..texts import sentence


class _Amount(NamedTuple):
    """What was used. `unknown` says why the amount is not known, or may be more than `value`."""

    value: float | None
    unknown: str = ""


@register
class Budget(SyncEvaluator):
    """The share of the limits of time, tool calls, tokens and cost that were met.

    With `scope: conversation`, the limits are those of the sums over its turns, and of the latest of the first events.
    An amount that is not known meets no limit and exceeds none: if no other limit is exceeded, the result is skipped.

    Tokens are those of the spans, else those that the agent states in its answer; the two are never added. The cost is
    what spans state, else that of the tokens by the `prices` of the suite, by name of a model or a pattern such as
    `gpt-4o-*`, for a million tokens; cached tokens are priced as input. Without `prices`, a table of 28 models applies,
    in US dollars, as of November 2026.

    Details, by limit: `{limit, actual}`, with `unknown` where the amount is not known; `source` of the tokens.

    Example:

        prices: {gpt-4o: {input: 2.5, output: 10}}
        evaluators:
          - budget: {max_seconds: 10, max_calls: 5, max_total_tokens: 20000}
          - budget: {id: whole, scope: conversation, max_cost: 0.05}
    """

    max_seconds: float | None = None
    """From the message to the end of the turn."""
    max_first_event_seconds: float | None = None
    """From the message to the first event of the answer."""
    max_calls: int | None = None
    """Tool calls."""
    max_input_tokens: float | None = None
    """Tokens that the agent's models read."""
    max_output_tokens: float | None = None
    """Tokens that they wrote."""
    max_total_tokens: float | None = None
    """Both together."""
    max_cost: float | None = None
    """That of the tokens by the suite's `prices`, unless the spans state it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_limits(self, _LIMITS, self.name)

    def measure(self, case: EvalCase) -> Measurement:
        turns = [case] if case.turns is None else list(case.turns)
        details: dict[str, Any] = {}
        exceeded, unknown = [], []
        for name in _LIMITS:
            if (limit := getattr(self, name)) is None:
                continue
            used = _used(name, turns, case)
            details[name] = {"limit": limit, "actual": used.value}
            if used.value is not None and used.value > limit:
                more = "at least " if used.unknown else ""
                exceeded.append(f"{_WORDS[name]}: {more}{_text(used.value)}, of at most {_text(limit)}")
            elif used.unknown:
                details[name]["unknown"] = used.unknown
                unknown.append(f"{_WORDS[name]}: {used.unknown}")
        if unknown and not exceeded:
            if len(unknown) == 1 and details.get("max_calls", {}).get("unknown"):
                raise CallsUnseenError(details["max_calls"]["unknown"])
            raise SkipEvaluation(f"not known: {'; '.join(unknown)}")
        stated = [(turn.resources or {}).get("source") for turn in turns]
        sources = dict.fromkeys(source for source in stated if source)
        if sources and any("tokens" in name or name == "max_cost" for name in details):
            details["source"] = ", ".join(sources)
        limits = [name for name in details if name != "source"]
        met = len(limits) - len(exceeded) - len(unknown)
        summary = f"{met} of {len(limits)} limit{'s' if len(limits) > 1 else ''} met"
        if not exceeded:
            used_texts = [f"{_WORDS[name]} {_text(details[name]['actual'])}" for name in limits]
            summary += f" ({', '.join(used_texts)})"
        return Measurement(met / len(limits), sentence(summary, exceeded), details)


_WORDS: Mapping[str, str] = {
    "max_seconds": "seconds",
    "max_first_event_seconds": "seconds to the first event",
    "max_calls": "calls",
    "max_input_tokens": "input tokens",
    "max_output_tokens": "output tokens",
    "max_total_tokens": "tokens",
    "max_cost": "cost",
}
_LIMITS = tuple(_WORDS)


def _used(limit: str, turns: Sequence[EvalCase], case: EvalCase) -> _Amount:
    if limit == "max_calls":
        return _Amount(len(case.captured_calls), case.calls_unseen or "")
    amounts = [_of_turn(limit.removeprefix("max_"), turn) for turn in turns]
    values = [amount.value for amount in amounts if amount.value is not None]
    unknown = next((amount.unknown for amount in amounts if amount.unknown), "")
    if not values:
        return _Amount(None, unknown or "there is no turn")
    return _Amount(max(values) if limit == "max_first_event_seconds" else sum(values), unknown)


def _of_turn(name: str, turn: EvalCase) -> _Amount:
    resources = turn.resources or {}
    value = amount_in(resources, name)
    if name == "cost":
        cost = cost_of(resources, PRICES if turn.prices is None else turn.prices)
        if isinstance(cost, str):
            return _Amount(None, cost)
        value = cost
    if value is None:
        why = "no span and no part of the answer states them" if "tokens" in name else "the turn has no such time"
        return _Amount(None, why)
    if "seconds" not in name and "cost" not in resources and resources.get("at_least"):
        return _Amount(value, f"at least {_text(value)}, {resources['source']} states only a part")
    return _Amount(value)


def _text(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
