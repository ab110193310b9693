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


class JumpGuard:
    """Decides whether old data may be deleted: not for a day after the clock was set far ahead.

    The times of `may_delete` are seconds: the system's clock, and one that only goes ahead.
    """

    def __init__(self, most_s: float = 3600.0, hold_s: float = 86_400.0) -> None:
        self._most_s = most_s
        self._hold_s = hold_s
        self._last: tuple[float, float] | None = None
        self._held_until = 0.0

    def may_delete(self, wall_s: float, steady_s: float) -> bool:
        """Whether the clock can be trusted; call this periodically."""
        last, self._last = self._last, (wall_s, steady_s)
        if last is not None and (wall_s - last[0]) - (steady_s - last[1]) > self._most_s:
            self._held_until = steady_s + self._hold_s
        return steady_s >= self._held_until
