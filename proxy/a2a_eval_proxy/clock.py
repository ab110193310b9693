"""The time of turns: seconds since the epoch that neither stand still nor jump while a turn is open.

A system clock may be set back or ahead by hours. Durations and timeouts of turns are not to see that, so this clock
goes on evenly and takes a new time over when nothing is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_SLEW_S = 0.01
"""By so much `align` moves the clock while turns are open: enough for what the system's own clock is adjusted by."""


class Clock:
    """`wall` is the system's clock, `steady` one that only goes ahead; both in seconds."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._offset = wall() - steady()

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._offset + self._steady()

    def align(self, *, busy: bool) -> None:
        """Take the system's time over; only by a little while turns are open (`busy`)."""
        behind_s = self._wall() - self.now()
        self._offset += max(-_SLEW_S, min(_SLEW_S, behind_s)) if busy else behind_s


CLOCK = Clock()
"""The clock of this process."""


class JumpGuard:
    """Says whether what is older than some days may be deleted: not for a day after the clock was set far ahead.

    The times of `may_delete` are seconds: the system's clock, and one that only goes ahead.
    """

    def __init__(self, most_s: float = 3600.0, hold_s: float = 86_400.0) -> None:
        self._most_s = most_s
        self._hold_s = hold_s
        self._last: tuple[float, float] | None = None
        self._held_until = 0.0

    def may_delete(self, wall_s: float, steady_s: float) -> bool:
        """Whether the clock is to be believed; call it now and again."""
        last, self._last = self._last, (wall_s, steady_s)
        if last is not None and (wall_s - last[0]) - (steady_s - last[1]) > self._most_s:
            self._held_until = steady_s + self._hold_s
        return steady_s >= self._held_until
