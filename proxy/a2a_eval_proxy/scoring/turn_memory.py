"""How much memory a turn takes while it is held as Python objects."""

from __future__ import annotations

from typing import Any

from a2a_tool_capture.footprint import CALL_BYTES, value_bytes

from ..turn import Turn

_TURN_BYTES, _FINDING_BYTES = 2_000, 400
"""Of the objects without their texts: about what CPython takes."""


def memory_of(turn: Turn) -> int:
    """Bytes, about. A text with one emoji takes four bytes for each of its characters."""
    calls, findings = turn.tool_calls, turn.findings
    inner: list[Any] = [turn.user_text, turn.response_text]
    for call in calls:
        inner += call.id, call.name, call.arguments, call.result, call.error
    if findings:
        inner += [finding.message for finding in findings]
    return _TURN_BYTES + CALL_BYTES * len(calls) + _FINDING_BYTES * len(findings) + value_bytes(inner)
