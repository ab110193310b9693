"""Which changes of a task were seen, by the generations that A2A 1.1 numbers them with. Pure.

The agent adds 1 for each change: an update of the status or of an artifact, which is an event, and a message of the
user, which comes without one. A Task has the generation of its latest change, and shows everything up to it.
"""

from __future__ import annotations

_MAX_GAPS = 100
"""Gaps that are distinguished; with more, the last ones count as one."""

Gap = tuple[int, int]
"""The first and the last generation that is missing."""


class Generations:
    """What one view of a task has seen, in the order in which it came.

    An agent that sends an update without a generation, or one that does not rise, has none that mean anything (A2A
    1.1, section 3.2.7): from then on `latest` is 0, and nothing is missing.
    """

    def __init__(self) -> None:
        self.latest = 0
        """The highest generation so far; 0: none, or none that counts."""
        self.missing: list[Gap] = []
        """Gaps that nothing has filled, in order, none of which touches another."""
        self.shown: list[Gap] = []
        """Gaps that a later Task has filled."""
        self._counts = True
        self._message_may_count = True
        self._message = 0
        """The generation that the message of the user has, as it seems: it came with no event."""

    def begin_turn(self) -> None:
        """The user sends a message: a change without an event. What is missing belongs to earlier turns."""
        self.missing, self.shown = [], []
        self._message_may_count = True

    def saw_task(self, generation: int) -> None:
        """A Task came; `generation` 0: it has none."""
        if not generation and self.latest:
            self._stop_counting()
        if not (generation and self._counts):
            return
        self.latest = max(self.latest, generation)
        self._message = 0 if self._message <= generation else self._message
        self.shown += [gap for gap in self.missing if gap[1] <= generation]
        self.missing = [gap for gap in self.missing if gap[1] > generation]

    def saw_update(self, generation: int) -> None:
        """An update came; `generation` 0: it has none. One that `awaits` had fills its gap."""
        if not (self._counts and (generation or self.latest)):
            return
        latest, may_skip = self.latest, self._message_may_count
        self._message_may_count = False
        if generation > latest:
            self.latest = generation
            if latest and generation == latest + 2 and may_skip:
                self._message = latest + 1
            elif latest and generation > latest + 1:
                self._miss(latest + 1, generation - 1)
        elif self.awaits(generation):
            self._fill(generation)
        else:
            self._stop_counting()

    def awaits(self, generation: int) -> bool:
        """Whether the change of that generation is missing, unless it was the user's message."""
        return generation == self._message != 0 or any(first <= generation <= last for first, last in self.missing)

    def has(self, generation: int) -> bool:
        """Whether the change of that generation was seen."""
        return 0 < generation <= self.latest and not self.awaits(generation)

    def _miss(self, first: int, last: int) -> None:
        if len(self.missing) == _MAX_GAPS:
            first = self.missing.pop()[0]
        self.missing.append((first, last))

    def _fill(self, generation: int) -> None:
        if generation == self._message:
            self._message = 0
            return
        (gap,) = (gap for gap in self.missing if gap[0] <= generation <= gap[1])
        place = self.missing.index(gap)
        left = [(gap[0], generation - 1), (generation + 1, gap[1])]
        self.missing[place : place + 1] = [(first, last) for first, last in left if first <= last]

    def _stop_counting(self) -> None:
        self._counts, self.latest = False, 0
        self.missing, self.shown = [], []
