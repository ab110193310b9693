"""How much memory a turn takes while it is held as Python objects, and what all turns may take on their way."""

from __future__ import annotations

from sys import getsizeof
from typing import NamedTuple

from ..memory import MemoryPool, measured, share
from ..turn import Turn

_TURN_BYTES, _FINDING_BYTES, _CALL_BYTES = 2_000, 400, 900
"""Of the objects without their texts and arguments: about what CPython takes."""


class QueueMemory(NamedTuple):
    """Limits in bytes of the turns that a pipeline holds; of several agents, pools that their pipelines share."""

    unredacted: int | MemoryPool
    """Turns that wait to be redacted; one turn alone may have more."""
    unreadable: int | MemoryPool
    """Turns that wait for the store and cannot be read back, since their content is not stored."""
    queued: int | MemoryPool
    """Turns that wait with what they say, or are being scored; further ones are read from the store when it is their
    turn."""
    remembered: int | MemoryPool
    """Turns that were scored, in case spans come late."""

    @classmethod
    def of_one(cls) -> QueueMemory:
        """Those of the only agent."""
        return cls(*[share(32)] * 4)

    @classmethod
    def of_several(cls) -> QueueMemory:
        """For the pipelines of several agents."""
        return cls(*(MemoryPool(share(32)) for _ in range(4)))


def memory_of(turn: Turn) -> int:
    """Bytes, about."""
    size = _TURN_BYTES + getsizeof(turn.user_text) + getsizeof(turn.response_text) + getsizeof(turn.wire)
    for finding in turn.findings:
        size += _FINDING_BYTES + getsizeof(finding.message)
    for call in turn.tool_calls:
        size += _CALL_BYTES + getsizeof(call.name) + getsizeof(call.result) + getsizeof(call.error)
        size += measured(call.arguments) if call.arguments else 0
    return size
