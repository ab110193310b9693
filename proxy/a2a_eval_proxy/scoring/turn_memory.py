"""How much memory a turn takes while it is held as Python objects, and what all turns may take on their way."""

from __future__ import annotations

from sys import getsizeof

from ..memory import measured, share
from ..turn import Turn

_TURN_BYTES, _FINDING_BYTES, _CALL_BYTES = 2_000, 400, 900
"""Of the objects without their texts and arguments: about what CPython takes."""

QUEUE_BYTES = share(32)
"""Limit of what the turns of all agents may take in each place where they wait, until they are scored."""


def memory_of(turn: Turn) -> int:
    """Bytes, about."""
    size = _TURN_BYTES + getsizeof(turn.user_text) + getsizeof(turn.response_text)
    for finding in turn.findings:
        size += _FINDING_BYTES + getsizeof(finding.message)
    for call in turn.tool_calls:
        size += _CALL_BYTES + getsizeof(call.name) + getsizeof(call.result) + getsizeof(call.error)
        size += measured(call.arguments)
    return size
