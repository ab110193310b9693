"""What a client sees of the answer to a request."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import httpx
from a2a_tool_capture.canonical import too_deep
from a2a_tool_capture.errors import connection_problem
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # noqa: F401  # registers the types of details

from ...protocol.operations import decode_json
from ..probe.record import ProbeRequest, WireAnswer
from ..probe.transport import AgentTransport
from .answers import CUT, AnswerPart, SideAnswer, sse_fields

NO_ANSWER = "no answer"
_MAX_DEPTH = 200
_DETAILS = "grpc-status-details-bin"


class Sender(AgentTransport):
    """Client of one side. Use as async context manager."""

    async def send(self, request: ProbeRequest) -> SideAnswer:
        """Returns the answer, however it ends; status "no answer" without one."""
        answer = await self.answer(request)
        times = [message.at for message in answer.messages]
        end = answer.end
        return SideAnswer(
            end.code if end else str(answer.status or NO_ANSWER),
            _fields(answer.headers),
            tuple(AnswerPart(value_of(message.data), sse_fields(message.raw)) for message in answer.messages),
            streams=answer.streams,
            message=end.message if end else "",
            details=_details(end.details) if end else None,
            trailers=_fields(end.trailing) if end else (),
            end=self._cut(answer),
            spread_s=times[-1] - times[0] if times else 0.0,
        )

    def _cut(self, answer: WireAnswer) -> str:
        """How the answer ended, if not as it should."""
        error = answer.failure
        if isinstance(error, TimeoutError):
            return f"not complete within {self.timeout_s:g} s"
        if isinstance(error, httpx.RemoteProtocolError):
            return CUT
        if error is not None:
            return connection_problem(error)
        return "inside an event" if answer.unfinished else ""


def value_of(data: bytes) -> Any:
    """The JSON value, or the text of what is not JSON or nested too deeply to be compared."""
    try:
        value = decode_json(data)
    except ValueError:
        return data.decode(errors="replace")
    return data.decode(errors="replace") if too_deep(value, _MAX_DEPTH) else value


def _fields(fields: Iterable[tuple[str, str | bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value if isinstance(value, str) else base64.b64encode(value).decode())
        for name, value in fields
        if name != _DETAILS
    )


def _details(data: bytes | None) -> Any:
    """A google.rpc.Status as JSON; in base64 if it cannot be read, None without one."""
    if data is None:
        return None
    try:
        return MessageToDict(status_pb2.Status.FromString(data))
    except (DecodeError, TypeError, ValueError):
        return base64.b64encode(data).decode()
