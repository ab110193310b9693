"""The answer to a request as a client sees it, over any binding. Interprets no A2A."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import httpx
from a2a_tool_capture.errors import connection_problem
from a2a_tool_capture.json_limits import WALKED, too_deep
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # noqa: F401  # registers the types of details

from ...protocol.operations import decode_json

NO_ANSWER = "no answer"
CUT = "cut"
"""The end of an answer whose connection was closed before it was complete."""

_DETAILS = "grpc-status-details-bin"

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True)  # without slots: `cached_property` needs a __dict__
class WireMessage:
    """An event of a stream, or the one body of an answer."""

    data: bytes
    """Of gRPC as JSON, in base64 if it is not a message of A2A."""
    at: float = 0.0
    """When it arrived, in seconds on the clock of the event loop."""
    raw: bytes = b""
    """All bytes of a server-sent event."""

    @cached_property
    def value(self) -> Any:
        """The JSON value, or the text of what is not JSON or nested too deeply to be compared."""
        try:
            value = decode_json(self.data)
        except ValueError:
            return self.data.decode(errors="replace")
        return self.data.decode(errors="replace") if too_deep(value, WALKED) else value

    @property
    def fields(self) -> Fields:
        """The fields of a server-sent event except its data, such as `id` and `retry`; comments are no fields."""
        lines = self.raw.decode(errors="replace").splitlines()
        pairs = (line.partition(":")[::2] for line in lines if line and not line.startswith(":"))
        return tuple((name, value.removeprefix(" ")) for name, value in pairs if name not in ("data", "\ufeffdata"))


class GrpcEnd(NamedTuple):
    """The status of a gRPC call by its name, and its trailing metadata without the details of the status."""

    code: str
    message: str = ""
    trailing: Fields = ()
    details: bytes | None = None
    """A google.rpc.Status."""

    @classmethod
    def of(cls, code: str, message: str, trailing: Iterable[tuple[str, str | bytes]]) -> GrpcEnd:
        """From all of the trailing metadata."""
        given = tuple(trailing)
        details = next((value for name, value in given if name == _DETAILS), None)
        rest = metadata_fields(field for field in given if field[0] != _DETAILS)
        return cls(code, message, rest, details if isinstance(details, bytes) else None)


@dataclass(slots=True)
class WireAnswer:
    """An answer, as far as it came. `status` is that of HTTP; 0 without one."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Or the initial metadata of gRPC."""
    messages: list[WireMessage] = field(default_factory=list)
    streams: bool = False
    unfinished: bool = False
    """Whether it ends inside a server-sent event."""
    end: GrpcEnd | None = None
    """Of a gRPC call that was read to its end."""
    failure: Exception | None = None
    """Why it is not whole: an error of httpx, TimeoutError or EventTooLargeError."""

    @property
    def outcome(self) -> str:
        """The status of HTTP, or the name of that of gRPC; NO_ANSWER without one."""
        return self.end.code if self.end else str(self.status or NO_ANSWER)

    @property
    def ending(self) -> str:
        """How it ended, if not as it should."""
        if isinstance(self.failure, TimeoutError):
            return "not complete in time"
        if isinstance(self.failure, httpx.RemoteProtocolError):
            return CUT
        if self.failure is not None:
            return connection_problem(self.failure)
        return "inside an event" if self.unfinished else ""

    @property
    def details(self) -> Any:
        """The details of the gRPC status as JSON; in base64 if they cannot be read, None without any."""
        data = self.end.details if self.end else None
        if data is None:
            return None
        try:
            return MessageToDict(status_pb2.Status.FromString(data))
        except (DecodeError, TypeError, ValueError):
            return base64.b64encode(data).decode()

    @property
    def spread_s(self) -> float:
        """Seconds between the arrival of the first and the last message."""
        return self.messages[-1].at - self.messages[0].at if self.messages else 0.0

    @property
    def places(self) -> Iterator[tuple[str, WireMessage]]:
        for number, message in enumerate(self.messages, 1):
            yield (f"event {number}" if self.streams else "body"), message


def metadata_fields(metadata: Iterable[tuple[str, str | bytes]]) -> Fields:
    """Metadata of gRPC as text, binary values in base64."""
    return tuple(
        (name, value if isinstance(value, str) else base64.b64encode(value).decode()) for name, value in metadata
    )
