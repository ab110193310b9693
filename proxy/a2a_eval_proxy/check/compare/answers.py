"""What a client sees of an answer, over any binding. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CUT = "cut"
"""The end of an answer whose connection was closed before it was complete."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A body, a server-sent event or a gRPC message: its JSON value, or its text if it is not JSON.

    `fields` are the other fields of a server-sent event, such as `id` and `retry`.
    """

    value: Any
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """`status` is that of HTTP, or the name of the gRPC status; "no answer" without one.

    `headers` are end-to-end headers or initial metadata, with names in lower case. `message`, `details` and
    `trailers` are those of gRPC. `end` says how the answer ended, if not as it should.
    """

    status: str
    headers: tuple[tuple[str, str], ...] = ()
    parts: tuple[AnswerPart, ...] = ()
    streams: bool = False
    message: str = ""
    details: Any = None
    trailers: tuple[tuple[str, str], ...] = ()
    end: str = ""
    spread_s: float = 0.0
    """Seconds between the arrival of the first and the last event."""

    @property
    def places(self) -> Iterator[tuple[str, AnswerPart]]:
        """Yields each part with its place in the answer."""
        for number, part in enumerate(self.parts):
            yield (f"event {number + 1}" if self.streams else "body"), part


@dataclass(frozen=True, slots=True)
class Delta:
    """One difference of two answers: `what` names the status, a header, an event or a JSON path.

    `design` says why a2a-eval-proxy makes it, if its documentation announces it.
    """

    what: str
    direct: str
    proxied: str
    design: str = ""


@dataclass(slots=True)
class OperationComparison:
    """The outcome for one operation over one interface. Both are "" and "agent card" for the card itself."""

    interface: str
    operation: str
    deltas: list[Delta] = field(default_factory=list)
    varies: list[str] = field(default_factory=list)
    """Where two direct answers differ, so that a difference there proves nothing."""

    @property
    def faults(self) -> list[Delta]:
        """The differences that are not by design."""
        return [delta for delta in self.deltas if not delta.design]

    @property
    def designed(self) -> list[Delta]:
        return [delta for delta in self.deltas if delta.design]


def sse_fields(event: bytes) -> tuple[tuple[str, str], ...]:
    """Returns the fields of a server-sent event except its data; comments are no fields."""
    lines = event.decode(errors="replace").splitlines()
    pairs = (line.partition(":")[::2] for line in lines if line and not line.startswith(":"))
    return tuple((name, value.removeprefix(" ")) for name, value in pairs if name not in ("data", "\ufeffdata"))
