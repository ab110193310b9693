"""Spans and GenAI log events as plain values, whatever wire form they came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STATUS_UNSET, STATUS_OK, STATUS_ERROR = range(3)
KIND_UNSPECIFIED, KIND_INTERNAL, KIND_SERVER, KIND_CLIENT, KIND_PRODUCER, KIND_CONSUMER = range(6)

Attributes = Mapping[str, Any]
"""Attribute values are str, bool, int, float, bytes, None, or lists and dicts of these."""


MAX_TEXT = 1 << 20
"""Maximum number of characters of one value; the LLM history of a long conversation is shorter."""


class CutText(str):
    """The kept beginning of a value that was too large; readers treat the content as unknown."""

    __slots__ = ()


def bounded(text: str) -> str:
    """`text` as the reader takes it: its beginning if it is too large."""
    return text if len(text) <= MAX_TEXT else CutText(text[:MAX_TEXT])


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened within a span, e.g. an exception. `time_ns` is nanoseconds since 1970, 0 unknown."""

    name: str
    time_ns: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Span:
    """One ended span.

    Ids are lower-case hex (32 and 16 digits); `parent_span_id` is "" for a root. Times are nanoseconds since
    1970, 0 where the exporter gave none. `parent_is_remote` is None where the exporter does not say.
    `resource` is shared by all spans of one exporter and never changed. `trace_state` is the `tracestate` of W3C
    Trace Context.
    """

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    kind: int = KIND_UNSPECIFIED
    scope: str = ""
    start_ns: int = 0
    end_ns: int = 0
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    status_code: int = STATUS_UNSET
    status_message: str = ""
    parent_is_remote: bool | None = None
    resource: Attributes = field(default_factory=dict)
    trace_state: str = ""
    dropped: int = 0
    """Attributes and events that it had, and that the exporter's limits took away."""

    @property
    def key(self) -> tuple[str, str]:
        """What makes a span the same span when it is delivered again."""
        return self.trace_id, self.span_id

    @property
    def enters_process(self) -> bool:
        """Whether the parent is in another process; exporters that do not say so still mark the spans of servers."""
        return self.kind == KIND_SERVER if self.parent_is_remote is None else self.parent_is_remote

    def __hash__(self) -> int:
        return hash(self.key)  # the attributes have none


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One GenAI event log record; `span_id` is "" where the record names only its trace."""

    trace_id: str
    span_id: str
    name: str
    time_ns: int = 0
    scope: str = ""
    attributes: Attributes = field(default_factory=dict)
    body: Any = None
    dropped: int = 0
    """Attributes that it had."""

    @property
    def key(self) -> tuple[str, str]:
        """That of its span."""
        return self.trace_id, self.span_id

    def __hash__(self) -> int:
        return hash((*self.key, self.name, self.time_ns))


@dataclass(frozen=True, slots=True)
class Unread:
    """What may be a call and could not be read as one: the code of its finding, and a sentence."""

    code: str
    what: str
    certain: bool
    """Whether it counts also where the agent's tools have spans of their own, which show what was withheld."""

    @classmethod
    def unknown(cls, what: str) -> Unread:
        return cls("unknown_kind", f"{what} is of a kind that is not known", True)

    @classmethod
    def withheld(cls, what: str, *, certain: bool = False) -> Unread:
        return cls("content_withheld", what, certain)
