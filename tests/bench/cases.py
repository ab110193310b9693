"""The turns that evaluators are measured on: tool calls as expected, or nearly so."""

from __future__ import annotations

from typing import Any

TOOLS = 10


def turns(size: int) -> list[dict[str, Any]]:
    """Turns of `size` expected calls: all made; one with another argument; one missing; two swapped; one too many."""
    expected = [_call(number) for number in range(size)]
    middle = size // 2
    actual = [
        expected,
        [*expected[:middle], _call(middle, town="Elsewhere"), *expected[middle + 1 :]],
        [*expected[:middle], *expected[middle + 1 :]],
        [*expected[: middle - 1], expected[middle], expected[middle - 1], *expected[middle + 1 :]],
        [*expected[:middle], _call(middle, town="Elsewhere"), *expected[middle:]],
    ]
    counts = {_name(number): [">=", 1] for number in range(min(TOOLS, size))}
    common = {"expected": expected, "counts": counts, "response": "Booked for Saturday."}
    return [{"calls": calls, **common} for calls in actual]


def reversed_turns(size: int) -> list[dict[str, Any]]:
    """Every expected call made, the last one first, and half of them with another argument."""
    (turn, *_) = turns(size)
    calls = [_call(number, town=None if number % 2 else "Elsewhere") for number in reversed(range(size))]
    return [{**turn, "calls": calls}]


def _call(number: int, town: str | None = None) -> dict[str, Any]:
    arguments = {
        "city": town or f"City {number}",
        "nights": float(number % 7),
        "room": {"floor": number, "wishes": ["quiet", "view"]},
    }
    return {"name": _name(number), "arguments": arguments, "result": f"booked {number}"}


def _name(number: int) -> str:
    return f"tool_{number % TOOLS}"
