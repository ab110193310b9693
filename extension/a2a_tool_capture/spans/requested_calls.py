"""The tool calls a turn's LLM messages speak of, each once, though every model call repeats the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

from ..same_call import signature
from .message_sources import Transcript
from .messages import Asked, loose_answers, paired

SpanKey = tuple[str, str]


@dataclass(slots=True)
class Requested(Asked):
    """A call the model asked for in this turn."""

    at_ns: int = 0
    """Start of the first model call that contains it."""

    traces: set[str] = field(default_factory=set)
    given_by: list[SpanKey] = field(default_factory=list)
    """Spans that have it as output."""


class RequestedCalls:
    """The calls asked for in the transcripts, which come in order of start.

    Of a history, only what follows the last user's message belongs to the turn. Calls are the same by id, else,
    where one of the two has none, by name and arguments in order: an input list repeats what is known; an output
    is a new call, unless it has the id of a known one or repeats the output of a span `related` to its own
    (one above the other).
    """

    def __init__(self, related: Callable[[SpanKey, SpanKey], bool]) -> None:
        self.related = related
        self.calls: list[Requested] = []
        self.by_id: dict[str, Requested] = {}
        self.by_signature: dict[tuple[str, Hashable], list[Requested]] = defaultdict(list)
        self.answers: dict[str, str] = {}

    def of(self, found: Iterable[Transcript]) -> list[Requested]:
        """In the order asked."""
        for transcript in found:
            self._transcript(transcript)
        for call in self.calls:
            if call.answer is None:
                call.answer = self.answers.get(call.call_id)
        return self.calls

    def _transcript(self, transcript: Transcript) -> None:
        key = transcript.trace_id, transcript.span_id
        met: set[int] = set()  # id() of the calls this transcript has spoken of
        for asked, of_this_turn in paired(transcript.inputs):
            if of_this_turn and not transcript.is_answer(asked.name):
                met.add(id(self._meet(asked, transcript, met, key=None)))
        for asked, _ in paired(transcript.outputs):
            if not transcript.is_answer(asked.name):
                call = self._meet(asked, transcript, met, key)
                call.given_by.append(key)
                met.add(id(call))
        for items in (transcript.inputs, transcript.outputs):
            for call_id, text in loose_answers(items).items():
                self.answers.setdefault(call_id, text)

    def _meet(self, asked: Asked, transcript: Transcript, met: set[int], key: SpanKey | None) -> Requested:
        """The known call that `asked` repeats, completed from it, or a new one. `key`: the span that outputs it."""
        call = self.by_id.get(asked.call_id) if asked.call_id else None
        if call is None or call.name != asked.name:
            call = self._known(asked, met, key)
        if call is None:
            call = Requested(asked.name, asked.arguments, asked.call_id, asked.answer, at_ns=transcript.start_ns)
            self.calls.append(call)
            self.by_signature[signature(asked)].append(call)
        else:
            call.call_id = call.call_id or asked.call_id
            call.arguments = call.arguments if call.arguments is not None else asked.arguments
            call.answer = call.answer if call.answer is not None else asked.answer
        if call.call_id:
            self.by_id.setdefault(call.call_id, call)
        call.traces.add(transcript.trace_id)
        return call

    def _known(self, asked: Asked, met: set[int], key: SpanKey | None) -> Requested | None:
        for call in self.by_signature[signature(asked)]:
            if id(call) in met or (call.call_id and asked.call_id):
                continue
            if (asked.call_id and not call.call_id) or key is None:
                return call
            if any(given == key or self.related(given, key) for given in call.given_by):
                return call
        return None
