"""How much memory a turn takes while it is held as Python objects."""

from __future__ import annotations

from a2a_tool_capture.footprint import calls_bytes, texts_bytes

from ..turn import Turn

_TURN_BYTES, _FINDING_BYTES = 2_000, 400
"""Of the objects without their texts: about what CPython takes."""


def memory_of(turn: Turn) -> int:
    """Bytes, about."""
    texts = [turn.user_text, turn.response_text, *(finding.message for finding in turn.findings)]
    return _TURN_BYTES + _FINDING_BYTES * len(turn.findings) + calls_bytes(turn.tool_calls) + texts_bytes(texts)
