"""Tool spans read by their convention: each is one observation of a call, complete or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .content import NOTHING, UNKNOWN, Arguments, ToolOutcome, usable_id
from .conventions import Convention, recognise
from .failures import Failure, failure
from .model import KIND_CLIENT, KIND_SERVER, Span

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


def _name(span: Span, convention: Convention) -> str:
    for attribute in convention.tool_name:
        value = span.attributes.get(attribute)
        if isinstance(value, str) and value.strip():
            return value.strip()
    for before, after in convention.span_names:
        if span.name.startswith(before) and span.name.endswith(after):
            return span.name[len(before) : len(span.name) - len(after)].strip()
    return ""


def _content(span: Span, convention: Convention) -> tuple[Arguments, ToolOutcome]:
    if convention.withheld and all(span.attributes.get(key) == value for key, value in convention.withheld):
        return UNKNOWN, NOTHING
    arguments = _first(span, convention.arguments, ("",))
    return arguments or UNKNOWN, _first(span, convention.result) or NOTHING


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
