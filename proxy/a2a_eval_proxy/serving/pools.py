"""What the agents of one process share of its memory and time."""

from __future__ import annotations

from typing import NamedTuple

from ..loop_time import LoopTime
from ..memory import MemoryPool, share
from ..scoring.turn_memory import QueueMemory
from ..settings import Settings


class SharedPools(NamedTuple):
    """Of one process."""

    open_turns: int | MemoryPool
    bodies: int | MemoryPool
    """Of several agents: room for the largest body, though another agent has its half."""
    wire: int | MemoryPool
    queues: QueueMemory
    """Of turns until they are scored."""
    loop_time: LoopTime

    @classmethod
    def of(cls, settings: Settings) -> SharedPools:
        part, small = share(8), share(32)
        if settings.upstream:
            largest = max(part, 2 * settings.max_body_bytes)
            return cls(part, largest, small, QueueMemory.of_one(), LoopTime(is_shared=False))
        agents = settings.each_agent.values()
        largest = max((agent.settings.max_body_bytes for agent in agents), default=settings.max_body_bytes)
        bodies = MemoryPool(max(part, 4 * largest))
        return cls(
            MemoryPool(part),
            bodies,
            MemoryPool(small),
            QueueMemory.of_several(),
            LoopTime(is_shared=True),
        )
