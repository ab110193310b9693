"""The spans of a turn as tool calls: read, grouped, completed from LLM messages, in order of start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ..models import Finding, Severity, ToolCall, ToolCallSource
from ..same_call import signature
from .conventions import asks_for_tools
from .messages import Answered, Asked, Transcript, of_last_turn, paired, transcripts
from .model import CutText, LogEvent, Span, Unread
from .observations import Lineage, ObservationGroup, contained, group, read_span, same_tool, unread_of

SpanKey = tuple[str, str]


@dataclass(slots=True)
class Requested(Asked):
    """A call the model asked for in this turn."""

    at_ns: int = 0
    """Start of the first model call that contains it."""

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
        self.answered: list[Answered] = []
        """All answers of this turn, whether or not their calls are known."""

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
        inputs, outputs = transcript.inputs or [], transcript.outputs or []
        met: set[int] = set()  # id() of the calls this transcript has spoken of
        for asked, of_this_turn in paired(inputs):
            if of_this_turn and not transcript.is_answer(asked.name):
                met.add(id(self._meet(asked, transcript, met, key=None)))
        for asked, _ in paired(outputs):
            if not transcript.is_answer(asked.name):
                call = self._meet(asked, transcript, met, key)
                call.given_by.append(key)
                met.add(id(call))
        for items in (inputs, outputs):
            for item in items:
                if isinstance(item, Answered) and item.call_id and item.text is not None:
                    self.answers.setdefault(item.call_id, item.text)
            self.answered += (item for item in of_last_turn(items) if isinstance(item, Answered))

    def unexplained(self, calls: Sequence[ToolCall]) -> list[Unread]:
        """The answers whose calls are not among `calls`; without a name, they may be those of calls without an id."""
        ids, names = {*self.by_id, *(call.id for call in calls if call.id)}, {call.name for call in calls}
        open_calls = any(not call.id for call in calls)

        def explained(item: Answered) -> bool:
            if item.name:
                return any(same_tool(item.name, name, prefixed=True) for name in names)
            return item.call_id in ids or (open_calls if item.call_id else bool(calls))

        return [
            Unread.withheld(
                f"an answer to the call {item.call_id or item.name!r} came without the call", certain=bool(item.name)
            )
            for item in self.answered
            if not explained(item)
        ]

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
        failure = min(failures, key=lambda known: known.rank) if failures else None
        error = failure.text if failure else None
        vague = failure is not None and failure.is_vague
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

    def is_of(self, asked: Requested) -> bool:
        return same_tool(self.call.name, asked.name, prefixed=self.transport)

    def learn(self, place: int, asked: Requested) -> None:
        """Take what the spans do not contain."""
        self.place = place
        call = self.call
        wants_result = call.result is None and (call.error is None or self.error_is_vague)
        filled_in: tuple[str, ...] = ()
        if call.arguments and asked.arguments and contained(asked.arguments, call.arguments):
            filled_in = tuple(name for name in call.arguments if name not in asked.arguments)
        self.call = replace(
            call,
            default_arguments=filled_in,
            name=asked.name,  # differs only where a transport knows less of the name
            id=call.id or asked.call_id,
            arguments=asked.arguments if call.arguments is None else call.arguments,
            result=asked.answer if wants_result else call.result,
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
        stages: tuple[Callable[[Draft], Iterable[int]], ...] = (
            lambda draft: self.by_id.get(draft.call.id, ()),
            lambda draft: self.by_signature.get(signature(draft.call), ()),
            self._defaults_added,
            lambda draft: [at for at, call in self.free.items() if None in (draft.call.arguments, call.arguments)],
        )
        for places in stages:
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

    def _defaults_added(self, draft: Draft) -> Iterable[int]:
        known = draft.call.arguments
        if known is None:
            return ()
        return [
            place
            for place, call in self.free.items()
            if draft.is_of(call) and call.arguments is not None and contained(call.arguments, known)
        ]


def _time(nanoseconds: int) -> datetime | None:
    if not 0 < nanoseconds <= _LAST_NS:
        return None
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)


class Conversion(NamedTuple):
    """The calls in spans, and findings about them."""

    tool_calls: list[ToolCall]
    findings: list[Finding]


def tool_calls(spans: Iterable[Span], logs: Iterable[LogEvent] = ()) -> Conversion:
    """The tool calls that the spans and GenAI log events of one turn record, by start time.

    The spans may be of several traces, in any order, and delivered repeatedly: a span counts once by trace and
    span id. Every call is there once however many spans and instrumentations saw it, and as often as the agent
    made it. What spans do not say (id, arguments, result) is taken from the turn's LLM messages by id, else by
    name and arguments in order. A call that the messages alone show is a call too; it has no times. A failed call has
    `error` and no result, unless all that is known of the error is its type. What may be a call and cannot be read as
    one is a finding (see `models.CALLS_UNKNOWN_BY`). Pure, and total: never raises, whatever the spans hold.
    """
    distinct, logs = _once(spans), list(logs)
    lineage = Lineage(distinct)
    read = [(span, read_span(span)) for span in distinct]
    observations = [observation for _, observation in read if observation is not None]
    others = [span for span, observation in read if observation is None]
    groups, findings = group(observations, lineage)
    drafts = [Draft.of(found) for found in groups]
    found = transcripts(others, logs)
    requested = RequestedCalls(lineage.related)
    unmatched = DraftCompletion(drafts, requested.of(found)).run()
    for place, asked in unmatched:  # only messages speak of them, which have no mark for failure
        call = ToolCall(asked.name, asked.arguments, asked.call_id, asked.answer, source=ToolCallSource.OTEL_TRACE)
        drafts.append(Draft(call, asked.at_ns, place=place))
    drafts.sort(key=lambda draft: (draft.at_ns, draft.place))  # stable
    calls = [draft.call if draft.call.id else replace(draft.call, id=draft.tool_id) for draft in drafts]
    unread = [one for span in others if (one := unread_of(span)) is not None]
    unread += [one for transcript in found for one in transcript.unread] + requested.unexplained(calls)
    unread += [Unread.withheld(f"{log.name} has lost attributes") for log in logs if log.dropped]
    unread += _asked_unseen(others, found)
    if any(not observation.transport for observation in observations):
        unread = [one for one in unread if one.certain]
    return Conversion(calls, findings + _incomplete(calls) + _unread(unread))


def _asked_unseen(spans: Iterable[Span], found: Iterable[Transcript]) -> list[Unread]:
    """The calls for which models stopped, and which are not in their messages."""
    shown = {
        (transcript.trace_id, transcript.span_id)
        for transcript in found
        if any(isinstance(item, Asked) for item in transcript.outputs or ())
    }
    return [
        Unread.withheld(f"the model of the span {span.name!r} asked for a tool, and the span does not say which")
        for span in spans
        if span.key not in shown and asks_for_tools(span)
    ]


_MAX_SHOWN = 3


def _unread(unread: Iterable[Unread]) -> list[Finding]:
    """A finding for each code."""
    whats: dict[str, list[str]] = defaultdict(list)
    for one in dict.fromkeys(unread):
        whats[one.code].append(one.what)
    return [
        Finding(
            code,
            "there may be further tool calls in the traces: "
            + "; ".join(found[:_MAX_SHOWN])
            + (f"; and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""),
            Severity.WARNING,
            "traces",
        )
        for code, found in whats.items()
    ]


def _once(spans: Iterable[Span]) -> list[Span]:
    """Each span once, in an order that does not depend on that of arrival.

    Of two versions of one span the later and fuller one is taken.
    """
    known: dict[tuple[str, str], Span] = {}
    for span in spans:
        other = known.setdefault(span.key, span)
        if other is not span and other != span and _fullness(span) > _fullness(other):
            known[span.key] = span
    return sorted(known.values(), key=lambda span: (span.start_ns, span.trace_id, span.span_id))


def _fullness(span: Span) -> tuple[int, int, int, str]:
    return span.end_ns, len(span.attributes), len(span.events), repr(span)


def _incomplete(calls: list[ToolCall]) -> list[Finding]:
    found = [
        ("trace_result_cut", f"the result of {call.name!r} was too large and is cut")
        for call in calls
        if isinstance(call.result, CutText)
    ]
    if unknown := sum(call.arguments is None for call in calls):
        message = (
            f"{unknown} of {len(calls)} tool calls in the traces have no arguments: "
            "turn on content capture in the agent's instrumentation"
        )
        found.append(("trace_arguments_unknown", message))
    return [Finding(code, message, Severity.INFO, "traces") for code, message in found]
