"""How much memory a turn takes while it is held as Python objects."""

from __future__ import annotations

import sys

from a2a_tool_capture.footprint import calls_bytes

from ..turn import Turn

_TURN_BYTES, _FINDING_BYTES = 2_000, 400
"""Of the objects without their texts: about what CPython takes."""


def memory_of(turn: Turn) -> int:
    """Bytes, about. A text with one emoji takes four bytes for each of its characters."""
    size = _TURN_BYTES + sys.getsizeof(turn.user_text) + sys.getsizeof(turn.response_text)
    for finding in turn.findings:
        size += _FINDING_BYTES + sys.getsizeof(finding.message)
    return size + calls_bytes(turn.tool_calls) if turn.tool_calls else size
