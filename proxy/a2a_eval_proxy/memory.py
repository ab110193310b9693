"""How much memory a turn takes while it is held as Python objects."""

from __future__ import annotations

import sys
from typing import Any

from .capture.turn import Turn

_TURN_BYTES, _CALL_BYTES, _FINDING_BYTES = 2_000, 600, 400
"""Of the objects without their texts: about what CPython takes."""


def memory_of(turn: Turn) -> int:
    """Bytes, about. A text with one emoji takes four bytes for each of its characters."""
    size = _TURN_BYTES + sys.getsizeof(turn.user_text) + sys.getsizeof(turn.response_text)
    for call in turn.tool_calls:
        size += _CALL_BYTES + _of_values(call.arguments) + sum(map(sys.getsizeof, (call.result, call.error)))
    return size + sum(_FINDING_BYTES + sys.getsizeof(finding.message) for finding in turn.findings)


def _of_values(value: Any) -> int:
    """Of a JSON value; without recursion, since agents decide how deep it is."""
    size, left = 0, [value]
    while left:
        one = left.pop()
        size += sys.getsizeof(one)
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list):
            left += one
    return size
