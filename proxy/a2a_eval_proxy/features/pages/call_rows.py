"""The tool calls of a turn as rows: numbered, those that are not as expected first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call, expected or actual or both. `number` is its place among the actual calls, else among the expected ones.

    Without a comparison, `kind` is `alone`, and only an error has a `sign`. `differences` are in words, `compared` are
    the arguments of a call that differs: the differing ones by their paths, then the others.
    """

    kind: str
    number: int
    expected: Mapping[str, Any] | None
    made: Mapping[str, Any] | None
    differences: Sequence[str] = ()
    compared: Sequence[Mapping[str, Any]] = ()

    @property
    def sign(self) -> str:
        return self._change[0]

    @property
    def words(self) -> str:
        return self._change[1]

    @property
    def _change(self) -> tuple[str, str]:
        failed = ("✕", "error") if self.has_error else ("", "")
        return failed if self.kind == "alone" or (self.kind == "same" and self.has_error) else CHANGES[self.kind]

    @property
    def call(self) -> Mapping[str, Any]:
        """The actual call, else the expected one."""
        return self.made or self.expected or {}

    @property
    def has_error(self) -> bool:
        return self.made is not None and "error" in self.made

    @property
    def is_wrong(self) -> bool:
        return self.has_error or self.kind not in ("same", "alone", "awaited", "unknown", "ignored")

    @property
    def brief(self) -> str:
        """What the row says while it is closed."""
        if self.differences:
            more = f" and {len(self.differences) - 1} more" if len(self.differences) > 1 else ""
            return one_line(self.differences[0], _MAX_BRIEF) + more
        if self.has_error:
            return one_line(f"error: {self.call['error']}", _MAX_BRIEF)
        if self.call.get("any"):
            return "any arguments"
        if self.call.get("unknown"):
            return "unknown arguments"
        brief = ""
        for name, value in self.call.get("arguments", {}).items():
            brief += f"{', ' if brief else ''}{name}: {readable(value)}"
            if len(brief) > _MAX_BRIEF:
                break
        return one_line(brief, _MAX_BRIEF)


@dataclass(frozen=True, slots=True)
class CallRows:
    """The rows in three parts, each with a heading; only the first is shown at once."""

    compared: bool
    parts: Sequence[tuple[str, Sequence[CallRow]]]

    def __bool__(self) -> bool:
        return bool(self.parts)


def call_rows(shown: Mapping[str, Any], *, is_open: bool = False) -> CallRows:
    """The calls of a turn in the data of the report (`turn_data`)."""
    rows = _rows(shown, is_open=is_open)
    wrong = [row for row in rows if row.is_wrong]
    others = [row for row in rows if not row.is_wrong]
    first, more_wrong = wrong[:MAX_SHOWN], wrong[MAX_SHOWN:]
    if not wrong:
        first, others = others[:MAX_SHOWN], others[MAX_SHOWN:]
    elif len(others) <= _FEW:
        first, others = [*first, *others], []
    parts = [("", first), ("more that are not as expected", more_wrong), ("as expected" if wrong else "more", others)]
    return CallRows("changes" in shown, [part for part in parts if part[1]])


def _rows(shown: Mapping[str, Any], *, is_open: bool) -> list[CallRow]:
    made, expected = shown.get("calls", []), shown.get("expected_calls", [])
    if "changes" not in shown:
        return [CallRow("alone", n, None, call) for n, call in enumerate(made, 1)]
    rows = []
    for kind, left, right, *differing in shown["changes"]:
        actual, wanted = _at(made, right), _at(expected, left)
        number = (right if actual is not None else left or 0) + 1
        kind = "awaited" if is_open and kind == "removed" else kind
        rows.append(CallRow(kind, number, wanted, actual, *differing))
    return rows


def _at(calls: Sequence[Mapping[str, Any]], index: int | None) -> Mapping[str, Any] | None:
    return calls[index] if index is not None and index < len(calls) else None
