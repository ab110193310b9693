"""Tool spans read by their convention: each is one observation of a call, complete or not; and which observations are
of one call: the same id, one above the other, or the same moment seen from elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from ..canonical import value_key
from ..models import Finding, Severity
from .content import NOTHING, UNKNOWN, Arguments, ToolOutcome, as_text, is_placeholder, usable_id
from .conventions import (
    SPEAKS_OF_TOOLS,
    TOOL_ATTRIBUTES,
    Convention,
    SpanRole,
    is_look_alike,
    recognise,
    roles_of,
)
from .model import KIND_CLIENT, KIND_SERVER, STATUS_ERROR, Span, Unread

GENERIC = frozenset(
    {
        "",
        "error",
        "tool error",
        "tool_error",
        "failed",
        "failure",
        "unknown",
        "unknown error",
        "_other",
        "internal error",
    }
)
"""Status messages, in lower case, that contain no more than the status itself."""

_TRACEBACK = "Traceback (most recent call last)"
_MESSAGES = ("exception.message", "error.message")


class Failure(NamedTuple):
    """Why a call failed. Of several, the one of the lowest `rank` explains the most."""

    rank: int
    text: str

    @property
    def is_vague(self) -> bool:
        """Whether the text is no more than a type, or a word for failure."""
        return self.rank > _RESULT


_RESULT = 2
"""The rank of what the tool gave back."""


def failure(span: Span, outcome: ToolOutcome, says_failed: bool) -> Failure | None:
    """Why the call that `span` recorded failed; None where it did not.

    It failed where the status is ERROR, `error.type` is set, or its content says so (`says_failed`,
    `outcome.failed`). The text is the exception's message, else the status message unless generic, else the
    result, else `error.type`; never with a traceback.
    """
    error_type = span.attributes.get("error.type")
    if span.status_code != STATUS_ERROR and not error_type and not says_failed and not outcome.failed:
        return None
    error_type = error_type if isinstance(error_type, str) else ""
    exceptions = [event.attributes for event in reversed(span.events) if event.name == "exception"]
    said = (_message(attributes.get(key)) for attributes in (*exceptions, span.attributes) for key in _MESSAGES)
    exception_type = next(filter(None, (_message(event.get("exception.type")) for event in exceptions)), "")
    status = _message(span.status_message)
    is_bare = status.casefold() in GENERIC or _is_type(status, error_type) or _is_type(status, exception_type)
    explained = "" if is_bare else status
    texts = (next(filter(None, said), ""), explained, outcome.text, error_type, exception_type, status or "error")
    return next(Failure(rank, text) for rank, text in enumerate(texts) if text)


def _is_type(status: str, type_name: str) -> bool:
    """Whether a status message is but an error's type, perhaps with the colon after which its message would stand."""
    return status.rstrip(":").casefold() in (type_name.casefold(), type_name.rpartition(".")[2].casefold())


def _message(value: object) -> str:
    """Text before an appended traceback, or the last line of text that is nothing but one."""
    if not isinstance(value, str) or is_placeholder(value):
        return ""
    before, _, traceback = value.partition(_TRACEBACK)
    return before.strip() or traceback.strip().rpartition("\n")[2].strip()


_Content = TypeVar("_Content", Arguments, ToolOutcome)

_PREFIX_ENDS = "_-.:/"


@dataclass(frozen=True, slots=True)
class Observation:
    """One span's view of a tool call. `arguments` None: unknown; `call_id` "": none; `result` None: unknown.

    `tool_id` may be the call's id (OpenInference) or the tool's (UiPath), which calls share.
    """

    span: Span
    name: str
    call_id: str
    arguments: dict[str, Any] | None
    result: str | None
    failure: Failure | None
    transport: bool
    tool_id: str = ""

    @property
    def vantage(self) -> str:
        """From where the call was seen: one vantage sees a call once, unless one observation is above the other."""
        side = self.transport and self.span.kind in (KIND_CLIENT, KIND_SERVER)
        return f"{self.span.scope}/{self.span.kind}" if side else self.span.scope


def same_tool(one: str, other: str, *, prefixed: bool) -> bool:
    """Whether two names are one tool's; `prefixed`: also where one has a prefix before it (`server_tool`, MCP)."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return prefixed and long.endswith(short) and long[-len(short) - 1] in _PREFIX_ENDS


def read_span(span: Span) -> Observation | None:
    """Read `span` as a tool call; None for any other span. Never raises."""
    convention = recognise(span)
    if convention is None:
        return None
    name = _name(span, convention)
    if not name or name in convention.not_tools:
        return None
    arguments, outcome = _content(span, convention)
    call_ids = (usable_id(span.attributes.get(attribute)) for attribute in convention.call_id)
    said = any(span.attributes.get(attribute) == value for attribute, value in convention.failed)
    return Observation(
        span=span,
        name=name,
        call_id=next(filter(None, call_ids), "") or arguments.call_id or outcome.call_id,
        arguments=arguments.values,
        result=outcome.text,
        failure=failure(span, outcome, said),
        transport=convention.transport,
        tool_id=usable_id(span.attributes.get("tool.id")),
    )


_TOOL_SPANS = ("execute_tool ", "tools/call ")
"""Beginnings of the names that conventions give to calls of tools, and to nothing else."""


def unread_of(span: Span) -> Unread | None:
    """What may be a call in a span of which `read_span` makes none; None for a span that is known to be no call."""
    if is_look_alike(span.attributes):
        return None
    convention, shown = recognise(span), repr(span.name)
    if convention is not None:
        nameless = not _name(span, convention)
        return Unread.withheld(f"the tool call {shown} does not name its tool", certain=True) if nameless else None
    roles = roles_of(span)
    for value, role in roles.items():
        if role is SpanRole.TOOL or (role is None and SPEAKS_OF_TOOLS(value)):
            return Unread.unknown(f"the operation {value!r} of the span {shown}")
    known = any(role is not None for role in roles.values())
    if not known and any(attribute.startswith(TOOL_ATTRIBUTES) for attribute in span.attributes):
        return Unread.unknown(f"the span {shown} with attributes of a tool call")
    if not roles and span.name.startswith(_TOOL_SPANS):
        return Unread.unknown(f"the span {shown} without attributes")
    return (
        Unread.withheld(f"the span {shown} has lost attributes or events", certain=not known) if span.dropped else None
    )


def _name(span: Span, convention: Convention) -> str:
    for attribute in convention.tool_name:
        value = span.attributes.get(attribute)
        if isinstance(value, str) and value.strip():
            return "" if is_placeholder(value) else value
    for before, after in convention.span_names:
        if span.name.startswith(before) and span.name.endswith(after):
            name = span.name[len(before) : len(span.name) - len(after)]
            return name if name.strip() else ""
    return ""


def _content(span: Span, convention: Convention) -> tuple[Arguments, ToolOutcome]:
    if convention.withheld and all(span.attributes.get(key) == value for key, value in convention.withheld):
        return UNKNOWN, NOTHING
    arguments = _first(span, convention.arguments, ("",))
    outcome = _first(span, convention.result) or NOTHING
    return arguments or UNKNOWN, replace(outcome, text=as_text(outcome.text))


def _first(
    span: Span, places: Mapping[str, Callable[[Any], _Content]], absent: tuple[str, ...] = ()
) -> _Content | None:
    """What the first place holds that has anything; `absent` counts as nothing."""
    for place, read in places.items():
        if (value := _at(span, place)) is not None and value not in absent:
            return read(value)
    return None


def _at(span: Span, place: str) -> Any:
    event_name, _, attribute = place.rpartition("/")
    if not event_name:
        return span.attributes.get(attribute)
    return next((event.attributes.get(attribute) for event in reversed(span.events) if event.name == event_name), None)


class Lineage:
    """The parents of spans. Spans may miss, and parents may even form a circle."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = {span.key: span for span in spans}

    def add(self, span: Span) -> None:
        self._spans[span.key] = span

    def ancestors(self, key: tuple[str, str]) -> Iterator[Span]:
        """The spans above `key`, nearest first, as far as they are at hand."""
        passed = {key}
        span = self._spans.get(key)
        while span is not None and span.parent_span_id:
            above = span.trace_id, span.parent_span_id
            if above in passed:
                return
            passed.add(above)
            span = self._spans.get(above)
            if span is not None:
                yield span

    def related(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Whether one of two spans is above the other."""
        return any(span.key == one for span in self.ancestors(other)) or any(
            span.key == other for span in self.ancestors(one)
        )


@dataclass(slots=True, eq=False)
class ObservationGroup:
    """One call's observations, outermost first, the agent's before those of transports (other hosts and clocks)."""

    observations: list[Observation]

    @property
    def call_id(self) -> str:
        return next((observation.call_id for observation in self.observations if observation.call_id), "")

    @property
    def arguments(self) -> dict[str, Any] | None:
        return next(
            (observation.arguments for observation in self.observations if observation.arguments is not None), None
        )

    @property
    def transport(self) -> bool:
        """Whether nothing but transports saw the call: no agent under its own name for the tool."""
        return all(observation.transport for observation in self.observations)

    @property
    def first(self) -> Observation:
        return self.observations[0]

    def absorb(self, other: ObservationGroup) -> None:
        self.observations = sorted(
            self.observations + other.observations,
            key=lambda observation: (observation.transport, *observation_order(observation)),
        )


def group(observations: Iterable[Observation], lineage: Lineage) -> tuple[list[ObservationGroup], list[Finding]]:
    """The calls behind the observations, by start, each observation in exactly one; and ids that two tools share.

    Two observations are one call where they share id and tool (but for calls of different arguments, one after the
    other, of a model that numbers its ids again in each response); where one is the nearest tool span above the other,
    for the same tool, without contradiction in id or arguments and with no agent in between; or where they come
    from different vantages, with the same name and arguments, and overlap in time, one with one, in order.
    Never by name and arguments alone: an agent does repeat its calls. Unknown arguments contradict nothing.
    """
    groups = {
        observation.span.key: ObservationGroup([observation])
        for observation in sorted(observations, key=observation_order)
    }
    findings = _join_ids(groups)
    _join_nested(groups, lineage)
    distinct = _distinct(groups.values())
    for with_arguments in (True, False):
        distinct = _join_overlapping(distinct, with_arguments=with_arguments)
    return distinct, findings


def observation_order(observation: Observation) -> tuple[int, int, str, str]:
    """By start; of two that start together the longer is the outer one."""
    span = observation.span
    return span.start_ns, -span.end_ns, span.trace_id, span.span_id


def _join(groups: dict[tuple[str, str], ObservationGroup], outer: ObservationGroup, inner: ObservationGroup) -> None:
    if outer is not inner:
        outer.absorb(inner)
        for observation in inner.observations:
            groups[observation.span.key] = outer


def _join_ids(groups: dict[tuple[str, str], ObservationGroup]) -> list[Finding]:
    by_id: dict[str, list[ObservationGroup]] = defaultdict(list)
    findings = []
    for candidate in list(groups.values()):
        if not candidate.call_id:
            continue
        same_id = by_id[candidate.call_id]
        same_tool = [known for known in same_id if _same_tool(known.first, candidate.first)]
        known = next((known for known in same_tool if _agree(known, candidate) or _overlap(known, candidate)), None)
        if known is not None:
            _join(groups, known, candidate)
            continue
        if same_tool:
            message = f"call id {candidate.call_id!r} is on calls of {candidate.first.name!r} with different arguments"
            findings.append(Finding("id_reused", f"{message}; each is kept", Severity.WARNING, "traces"))
        elif same_id:
            names = f"{same_id[0].first.name!r} and {candidate.first.name!r}"
            message = f"call id {candidate.call_id!r} is on spans of {names}; both are kept"
            findings.append(Finding("id_conflict", message, Severity.WARNING, "traces"))
        same_id.append(candidate)
    return findings


def _join_nested(groups: dict[tuple[str, str], ObservationGroup], lineage: Lineage) -> None:
    if len(groups) < 2:
        return
    for inner in [observation for joined in _distinct(groups.values()) for observation in joined.observations]:
        for span in lineage.ancestors(inner.span.key):
            outer = groups.get(span.key)
            if outer is not None:
                above = next(observation for observation in outer.observations if observation.span.key == span.key)
                if _same_tool(above, inner) and _agree(outer, groups[inner.span.key]):
                    _join(groups, outer, groups[inner.span.key])
                break
            if not {SpanRole.AGENT, SpanRole.MODEL}.isdisjoint(roles_of(span).values()):
                break  # the call is another agent's, not the one above seen again


def _join_overlapping(groups: Iterable[ObservationGroup], *, with_arguments: bool) -> list[ObservationGroup]:
    """Join each with the first from other vantages that it overlaps. With arguments: where both are known and equal;
    without: where either is unknown."""
    joined: list[ObservationGroup] = []
    buckets: dict[tuple[str, Hashable], list[ObservationGroup]] = defaultdict(list)
    for candidate in groups:
        if with_arguments and candidate.arguments is None:
            joined.append(candidate)
            continue
        bucket = buckets[candidate.first.name, value_key(candidate.arguments) if with_arguments else ""]
        for known in bucket:
            if _elsewhere(known, candidate) and _overlap(known, candidate) and _agree(known, candidate, exactly=True):
                known.absorb(candidate)
                break
        else:
            bucket.append(candidate)
            joined.append(candidate)
    return sorted(joined, key=_group_order)


def _elsewhere(one: ObservationGroup, other: ObservationGroup) -> bool:
    return {seen.vantage for seen in one.observations}.isdisjoint(seen.vantage for seen in other.observations)


def _overlap(one: ObservationGroup, other: ObservationGroup) -> bool:
    (begin, end), (other_begin, other_end) = (
        (group.first.span.start_ns, max(observation.span.end_ns for observation in group.observations))
        for group in (one, other)
    )
    return 0 < begin <= other_end and 0 < other_begin <= end


def _agree(one: ObservationGroup, other: ObservationGroup, *, exactly: bool = False) -> bool:
    """Whether neither id nor arguments say that these are two calls.

    Unless `exactly`, one may have more arguments: an inner layer may have filled in defaults.
    """
    if one.call_id and other.call_id and one.call_id != other.call_id:
        return False
    if one.arguments is None or other.arguments is None:
        return True
    if exactly:
        return value_key(one.arguments) == value_key(other.arguments)
    return contained(one.arguments, other.arguments) or contained(other.arguments, one.arguments)


def contained(few: Mapping[str, Any], many: Mapping[str, Any]) -> bool:
    """Whether `many` has every member of `few`, with an equal value or an object that contains that of `few`."""
    return few.keys() <= many.keys() and all(
        contained(value, many[key])
        if isinstance(value, Mapping) and isinstance(many[key], Mapping)
        else value_key(value) == value_key(many[key])
        for key, value in few.items()
    )


def _same_tool(one: Observation, other: Observation) -> bool:
    return same_tool(one.name, other.name, prefixed=one.transport or other.transport)


def _distinct(groups: Iterable[ObservationGroup]) -> list[ObservationGroup]:
    return sorted({id(candidate): candidate for candidate in groups}.values(), key=_group_order)


def _group_order(candidate: ObservationGroup) -> tuple[int, int, str, str]:
    return observation_order(candidate.first)
