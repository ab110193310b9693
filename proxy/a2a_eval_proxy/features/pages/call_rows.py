"""The tool calls of a turn as rows: numbered, those that are not as expected first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from tool_call_evaluators.matching.placeholders import readable
from tool_call_evaluators.texts import one_line

CHANGES = {
    "same": ("=", "as expected"),
    "moved": ("↕", "expected in another position"),
    "changed": ("≠", "different"),
    "removed": ("−", "missing"),
    "added": ("+", "unexpected"),
    "awaited": ("…", "not called yet"),
    "unknown": ("?", "tool calls are not visible"),
    "ignored": ("·", "does not count"),
}
"""Signs and words of the report, for a comparison of calls."""

MAX_SHOWN = 20
"""Rows outside the parts that readers open."""
_FEW = 3
"""Maximum number of calls that are as expected and are shown with those that are not."""
_MAX_BRIEF = 200


def call_rows(shown: Mapping[str, Any], *, is_open: bool = False) -> dict[str, Any]:
    """The calls of a turn in the data of the report (`turn_data`), as `calls.html` shows them: in three `parts`, each
    with a heading, of which only the first is shown at once; {} without calls."""
    rows = _rows(shown, is_open=is_open)
    wrong = [row for row in rows if row["is_wrong"]]
    others = [row for row in rows if not row["is_wrong"]]
    first, more_wrong = wrong[:MAX_SHOWN], wrong[MAX_SHOWN:]
    if not wrong:
        first, others = others[:MAX_SHOWN], others[MAX_SHOWN:]
    elif len(others) <= _FEW:
        first, others = [*first, *others], []
    parts = [("", first), ("more that are not as expected", more_wrong), ("as expected" if wrong else "more", others)]
    return {"compared": "changes" in shown, "parts": [part for part in parts if part[1]]} if rows else {}


def _rows(shown: Mapping[str, Any], *, is_open: bool) -> list[dict[str, Any]]:
    made, expected = shown.get("calls", []), shown.get("expected_calls", [])
    if "changes" not in shown:
        return [_row("alone", n, None, call) for n, call in enumerate(made, 1)]
    rows = []
    for kind, left, right, *differing in shown["changes"]:
        actual, wanted = _at(made, right), _at(expected, left)
        number = (right if actual is not None else left or 0) + 1
        kind = "awaited" if is_open and kind == "removed" else kind
        rows.append(_row(kind, number, wanted, actual, *differing))
    return rows


def _at(calls: Sequence[Mapping[str, Any]], index: int | None) -> Mapping[str, Any] | None:
    return calls[index] if index is not None and index < len(calls) else None


def _row(
    kind: str,
    number: int,
    expected: Mapping[str, Any] | None,
    made: Mapping[str, Any] | None,
    differences: Sequence[str] = (),
    compared: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """A call, expected or actual or both. `number` is its place among the actual calls, else among the expected ones.

    Without a comparison, `kind` is `alone`, and only an error has a `sign`. `differences` are in words, `compared` are
    the arguments of a call that differs: the differing ones by their paths, then the others.
    """
    has_error = made is not None and "error" in made
    failed = ("✕", "error") if has_error else ("", "")
    sign, words = failed if kind == "alone" or (kind == "same" and has_error) else CHANGES[kind]
    call = made or expected or {}
    return {
        "kind": kind,
        "number": number,
        "expected": expected,
        "made": made,
        "call": call,
        "compared": compared,
        "sign": sign,
        "words": words,
        "is_wrong": has_error or kind not in ("same", "alone", "awaited", "unknown", "ignored"),
        "brief": one_line(_brief(call, differences, has_error=has_error), _MAX_BRIEF),
    }


def _brief(call: Mapping[str, Any], differences: Sequence[str], *, has_error: bool) -> str:
    """What the row says while it is closed."""
    if differences:
        more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
        return one_line(differences[0], _MAX_BRIEF - len(more)) + more
    if has_error:
        return f"error: {call['error']}"
    for name, words in (("any", "any arguments"), ("unknown", "unknown arguments")):
        if call.get(name):
            return words
    arguments = islice(call.get("arguments", {}).items(), _MAX_BRIEF)
    return ", ".join(f"{name}: {readable(value)}" for name, value in arguments)
