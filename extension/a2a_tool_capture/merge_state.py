"""What `merge` keeps of an artifact, and of the task as it was when the current turn began. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .models import ToolCall
from .same_call import CallIndex, filled, new_calls


@dataclass(slots=True, eq=False)
class MergedArtifact:
    """Calls, each once, and text of one artifact."""

    calls: list[ToolCall] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    begun: int = 0
    generation: int = 0
    """The generations with which it was placed, and of its latest change (A2A 1.1); 0 if the agent counts none."""
    lacks_beginning: bool = False
    """Whether it was placed by a chunk: the beginning may come late."""
    _ordered: list[int] = field(default_factory=list)
    """The generations of the pieces of `text`."""
    _index: CallIndex | None = None
    """Built for the first call that may be a repetition."""

    @property
    def index(self) -> CallIndex:
        if self._index is None:
            self._index = CallIndex()
            for position, call in enumerate(self.calls):
                self._index.put(call, position, self.calls)
        return self._index

    def append(self, call: ToolCall) -> None:
        self.index.put(call, len(self.calls), self.calls)
        self.calls.append(call)

    def takes(self, generation: int, *, append: bool) -> bool | None:
        """Whether a change that comes after later ones is part of the artifact; None if that is not known."""
        if generation < self.begun:
            return self.lacks_beginning
        return True if append else None

    def add_text(self, text: str, generation: int) -> None:
        """Add a piece of text after those of that generation and earlier ones."""
        position = bisect_right(self._ordered, generation)
        self._ordered.insert(position, generation)
        self.text.insert(position, text)

    def replace(self, position: int, call: ToolCall) -> ToolCall:
        """Put `call` in the place of an earlier report, and complete it from that; returns the earlier one."""
        earlier = self.calls[position]
        self.calls[position] = later = filled(call, earlier)
        self.index.put(later, position, self.calls)
        return earlier


@dataclass(frozen=True, slots=True)
class TurnStart:
    """What was known when the current turn began."""

    calls: Sequence[ToolCall] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    elsewhere: Sequence[ToolCall] = ()
    """Of `calls`, those of turns that this merger was not fed with."""
    responses: Sequence[str] = ()
    """Response texts of such turns."""

    def following(self, calls: list[ToolCall], texts: dict[str, str], max_calls: int) -> TurnStart:
        """The start of the next turn, where the task now has these calls, and artifacts with these texts."""
        gone = new_calls(self.calls, calls)  # from the task as it is now, and maybe not for good
        elsewhere = new_calls(self.elsewhere, calls)
        kept = [*elsewhere, *new_calls([call for call in gone if call.id], elsewhere)]
        return TurnStart([*calls, *kept][:max_calls], texts, elsewhere, self.responses)

    def with_earlier(self, calls: Sequence[ToolCall], texts: Sequence[str], max_calls: int) -> TurnStart:
        """The same with calls and response texts of earlier turns."""
        return TurnStart(
            [*self.calls, *calls][:max_calls],
            self.texts,
            [*self.elsewhere, *calls][:max_calls],
            [*self.responses, *(text for text in texts if text)],
        )


FIRST_TURN = TurnStart()


def without_responses(texts: list[str], responses: Sequence[str]) -> list[str]:
    """`texts` of artifacts without those of which earlier responses consist: artifacts joined by newlines."""
    for response in responses:
        for start in range(len(texts)):
            end, length = start, -1
            while end < len(texts) and length < len(response):
                length += len(texts[end]) + 1
                end += 1
            if length == len(response) and "\n".join(texts[start:end]) == response:
                texts = texts[:start] + texts[end:]
                break
    return texts
