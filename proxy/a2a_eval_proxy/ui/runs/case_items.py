"""Cases as a page shows them: what is expected, in the words of the report, and the last verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tool_call_evaluators.matching.placeholders import readable
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.report.wording import EXPECTATION_WORDS, cut
from tool_call_evaluators.suite import Case, Expectation

from .run_view import CaseRow

MAX_TEXT = 2_000
"""Characters of an expected value."""
MAX_CALLS = 100
"""Expected calls of a turn."""


@dataclass(frozen=True, slots=True)
class Expected:
    """One expectation: its name, and the expected values, each on a line."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedTurn:
    user: str
    expected: tuple[Expected, ...]


@dataclass(frozen=True, slots=True)
class CaseItem:
    """A case. `origin` is `suite` or `registered`; `expected` concerns the whole conversation.

    `last` is its latest conversation with the name of the run; None if none is known.
    """

    case_id: str
    origin: str
    tags: tuple[str, ...]
    goal: str | None
    conversations: int
    simulated: bool
    turns: tuple[PlannedTurn, ...]
    expected: tuple[Expected, ...]
    last: tuple[str, CaseRow] | None


def case_item(case: Case, origin: str, last: Mapping[str, tuple[str, CaseRow]]) -> CaseItem:
    """The case; `last` has the latest conversations by case id."""
    return CaseItem(
        case_id=case.id,
        origin=origin,
        tags=case.tags,
        goal=case.user_goal or (case.simulate.goal if case.simulate else None),
        conversations=case.conversations,
        simulated=case.simulate is not None,
        turns=tuple(PlannedTurn(turn.user, expectations(turn.expect)) for turn in case.turns),
        expected=expectations(case.expect),
        last=last.get(case.id),
    )


def expectations(expect: Expectation) -> tuple[Expected, ...]:
    """What is expected, in the order of a suite file."""
    given = ((item.name, getattr(expect, item.name)) for item in fields(Expectation))
    return tuple(Expected(EXPECTATION_WORDS[name], _lines(name, value)) for name, value in given if value is not None)


def _lines(name: str, value: Any) -> tuple[str, ...]:
    if name == "tool_calls":
        more = len(value) - MAX_CALLS
        calls = [expected_call(call) for call in value[:MAX_CALLS]] or ["no call"]
        return (*calls, *([f"… and {more:,} more"] if more > 0 else []))
    match name:
        case "tool_calls_order":
            text = " → ".join(value)
        case "tool_calls_count":
            text = ", ".join(f"{tool} {criterion[0]} {criterion[1]}" for tool, criterion in value.items())
        case "tool_outputs":
            return tuple(cut(f"{output.name}: {output.output}", MAX_TEXT) for output in value[:MAX_CALLS])
        case _:
            text = value if isinstance(value, str) else readable(value)
    return (cut(text, MAX_TEXT),)


def expected_call(call: ExpectedCall) -> str:
    """`refund(order_id=/ORD-[0-9]+/, amount=≈ 14.5)`; `refund(any arguments), succeeded: true`."""
    arguments = [f"{key}={readable(value)}" for key, value in (call.arguments or {}).items()]
    given = "any arguments" if call.arguments is None else ", ".join(arguments)
    outcome = [f", {part}: {readable(value)}" for part, value in call.outcome.items()]
    return cut(f"{call.name}({given}){''.join(outcome)}", MAX_TEXT)
