"""The time of turns: seconds since the epoch, without jumps while a turn is open.

A system clock may be set back or ahead by hours. To keep durations and timeouts of turns right, this clock advances
evenly, and adopts the system's time when no turn is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SLEW_S = 0.01
"""Maximum correction by `align` while turns are open: enough to follow adjustments of the system clock."""


class Clock:
    """`wall` is the system clock, `steady` one that is never set back; both in seconds."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._offset + self._steady()

    def align(self, *, busy: bool) -> None:
        """Adopt the system's time; while turns are open (`busy`), by at most 0.01 s."""
        behind_s = self._wall() - self.now()
        self._offset += max(-_SLEW_S, min(_SLEW_S, behind_s)) if busy else behind_s


CLOCK = Clock()
"""The clock of this process."""
