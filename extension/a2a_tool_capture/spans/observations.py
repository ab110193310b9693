"""Tool spans read by their convention: each is one observation of a call, complete or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from .content import NOTHING, UNKNOWN, Arguments, ToolOutcome, usable_id
from .conventions import Convention, is_look_alike, recognise, roles_of
from .kinds import SPEAKS_OF_TOOLS, TOOL_ATTRIBUTES, SpanRole
from .literals import as_text, is_placeholder
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


class FailureDetail(IntEnum):
    """How much a string explains about a failure: the lowest is preferred."""

    EXCEPTION = 0
    STATUS = 1
    RESULT = 2
    ERROR_TYPE = 3
    EXCEPTION_TYPE = 4
    NOTHING = 5


class Failure(NamedTuple):
    detail: FailureDetail
    text: str


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
    for attributes in (*exceptions, span.attributes):
        for key in _MESSAGES:
            if text := _message(attributes.get(key)):
                return Failure(FailureDetail.EXCEPTION, text)
    exception_type = next((text for event in exceptions if (text := _message(event.get("exception.type")))), "")
    status = _message(span.status_message)
    if status.casefold() not in GENERIC and not _is_type(status, error_type) and not _is_type(status, exception_type):
        return Failure(FailureDetail.STATUS, status)
    if outcome.text:
        return Failure(FailureDetail.RESULT, outcome.text)
    if error_type:
        return Failure(FailureDetail.ERROR_TYPE, error_type)
    if exception_type:
        return Failure(FailureDetail.EXCEPTION_TYPE, exception_type)
    return Failure(FailureDetail.NOTHING, status or "error")


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
