"""Calls put together from their observations, and completed from what the LLM messages say of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from ..models import ToolCall, ToolCallSource
from ..same_call import signature
from .failures import FailureDetail
from .grouping import ObservationGroup, contained
from .observations import same_tool
from .requested_calls import Requested

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_NS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) * 1000


@dataclass(slots=True)
class Draft:
    """A call that messages may still complete."""

    call: ToolCall
    at_ns: int
    """When it began, or when the model was called that asked for it: for the order."""

    error_is_vague: bool = False
    transport: bool = False
    """Seen by transports only: the model may know the tool by a name with a prefix."""

    tool_id: str = ""
    """The id of a call for which no other is known."""

    place: int = 0
    """In the order in which the model asked, where messages show it: parallel calls may start in one instant."""

    @classmethod
    def of(cls, found: ObservationGroup) -> Draft:
        """Field by field from whoever has it, the outermost first; one failed observation makes a failed call."""
        failures = [observation.failure for observation in found.observations if observation.failure is not None]
        results = [observation.result for observation in found.observations if observation.result is not None]
        failure = min(failures, key=lambda known: known.detail) if failures else None
        error = failure.text if failure else None
        vague = failure is not None and failure.detail > FailureDetail.RESULT
        if vague and results:
            error, vague = results[0], False
        span = found.first.span
        call = ToolCall(
            name=found.first.name,
            arguments=found.arguments,
            id=found.call_id,
            result=results[0] if results and failure is None else None,
            error=error,
            source=ToolCallSource.OTEL_TRACE,
            started_at=_time(span.start_ns),
            ended_at=_time(max(span.end_ns, span.start_ns)) if span.start_ns else None,
        )
        return cls(call, span.start_ns, vague, found.transport, found.first.tool_id)

    @classmethod
    def asked(cls, place: int, asked: Requested) -> Draft:
        """A call that only messages speak of. They have no mark for failure: its answer is its result."""
        call = ToolCall(asked.name, asked.arguments, asked.call_id, asked.answer, source=ToolCallSource.OTEL_TRACE)
        return cls(call, asked.at_ns, place=place)

    @property
    def complete(self) -> bool:
        """Whether messages have nothing to add."""
        return bool(self.call.id) and self.call.arguments is not None and not self._wants_result

    @property
    def _wants_result(self) -> bool:
        return self.call.result is None and (self.call.error is None or self.error_is_vague)

    def is_of(self, asked: Requested) -> bool:
        return same_tool(self.call.name, asked.name, prefixed=self.transport)

    def learn(self, place: int, asked: Requested) -> None:
        """Take what the spans do not contain."""
        self.place = place
        call = self.call
        self.call = replace(
            call,
            name=asked.name,  # differs only where a transport knows less of the name
            id=call.id or asked.call_id,
            arguments=asked.arguments if call.arguments is None else call.arguments,
            result=asked.answer if self._wants_result else call.result,
        )


class DraftCompletion:
    """Completes each draft from its message.

    By id; else, where one of the two has none, by name and equal arguments, then arguments to which a layer has
    added defaults, then unknown ones; each in order, one with one.
    """

    def __init__(self, drafts: list[Draft], asked: list[Requested]) -> None:
        self.drafts = drafts
        self.taken = {draft.call.id for draft in drafts if draft.call.id}
        self.free = dict(enumerate(asked))
        self.by_id: dict[str, list[int]] = defaultdict(list)
        self.by_signature: dict[tuple[str, Hashable], list[int]] = defaultdict(list)
        for place, call in self.free.items():
            if call.call_id:
                self.by_id[call.call_id].append(place)
            if call.arguments is not None:
                self.by_signature[signature(call)].append(place)

    def run(self) -> list[tuple[int, Requested]]:
        """Returns the messages' calls without a draft, with their places."""
        waiting = self.drafts
        for places in (self._same_id, self._same_signature, self._defaults_added, self._unknown):
            waiting = [draft for draft in waiting if not self._tell(draft, places(draft))]
        return list(self.free.items())

    def _tell(self, draft: Draft, places: Iterable[int]) -> bool:
        for place in places:
            call = self.free.get(place)
            if call is not None and draft.is_of(call) and not self._is_another(draft, call):
                draft.learn(place, self.free.pop(place))
                return True
        return False

    def _is_another(self, draft: Draft, call: Requested) -> bool:
        """Whether ids say so: two different ones, or the message's is another draft's."""
        if not call.call_id or call.call_id == draft.call.id:
            return False
        return bool(draft.call.id) or call.call_id in self.taken

    def _same_id(self, draft: Draft) -> Iterable[int]:
        return self.by_id.get(draft.call.id, ())

    def _same_signature(self, draft: Draft) -> Iterable[int]:
        return self.by_signature.get(signature(draft.call), ())

    def _defaults_added(self, draft: Draft) -> Iterable[int]:
        known = draft.call.arguments
        if known is None:
            return ()
        return [
            place
            for place, call in self.free.items()
            if draft.is_of(call) and call.arguments is not None and contained(call.arguments, known)
        ]

    def _unknown(self, draft: Draft) -> Iterable[int]:
        return [place for place, call in self.free.items() if draft.call.arguments is None or call.arguments is None]


def _time(nanoseconds: int) -> datetime | None:
    if not 0 < nanoseconds <= _LAST_NS:
        return None
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
