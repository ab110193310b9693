"""How long turns may be silent, and the times that follow from it."""

from __future__ import annotations

from typing import NamedTuple


class TurnTimeouts(NamedTuple):
    """All in seconds."""

    silent_s: float
    """After this time without activity, the process that captures a turn closes it as incomplete (`turn_timeout`)."""

    @property
    def abandoned_s(self) -> float:
        """After this time without activity, another process closes a turn that the store has as open: later than its
        own process would have, which must have ended."""
        return 1.5 * self.silent_s + 1.0

    @property
    def look_for_abandoned_s(self) -> float:
        """Time between two searches for abandoned turns."""
        return max(1.0, self.abandoned_s / 6)

    @property
    def look_for_ended_webhooks_s(self) -> float:
        """Time between two searches for webhooks that have ended: their turns are not to wait much longer for them."""
        return self.silent_s / 4
