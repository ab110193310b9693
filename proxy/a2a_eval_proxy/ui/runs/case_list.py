"""The screen of the cases in force: what is expected, and the last verdicts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tool_call_evaluators.matching.placeholders import readable
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.report.wording import EXPECTATION_WORDS, cut
from tool_call_evaluators.suite import Expectation

from ..screen import Screen, Values, View
from .run_pages import FIRST_PAINT_S, FRAGMENT_S, judged
from .run_view import last_rows

MAX_RUNS = 5
"""The newest runs are searched for the last conversations of cases."""
MAX_CASES = 500
MAX_TEXT = 2_000
"""Characters of an expected value."""
MAX_CALLS = 100
"""Expected calls of a turn."""


async def _values(view: View) -> Values:
    listed = view.control.cases.listed()
    store = view.control.store
    names = await store.run_names(MAX_RUNS) if listed else []
    newest = [run for name in names for run in await store.runs(name)]
    rows = await judged(view, newest, FRAGMENT_S if "fragment" in view.request.query_params else FIRST_PAINT_S)
    return {
        "suite": view.control.suite,
        "suite_file": view.control.suite_file,
        "cases": listed[:MAX_CASES],
        "more": max(0, len(listed) - MAX_CASES),
        "last": last_rows({row.run.name: row.view for row in rows if row.view}),
        "expected": expectations,
        "waits": any(row.lags for row in rows),
    }


def expectations(expect: Expectation) -> dict[str, tuple[str, ...]]:
    """What is expected, in the order of a suite file and in the words of the report: values, each on a line."""
    given = ((item.name, getattr(expect, item.name)) for item in fields(Expectation))
    return {EXPECTATION_WORDS[name]: _lines(name, value) for name, value in given if value is not None}


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


SCREEN = Screen("/cases", "cases.html", _values, nav="Cases", fragments=("cases",))
