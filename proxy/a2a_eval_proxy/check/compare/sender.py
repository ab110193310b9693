"""Sends requests over HTTP and reads whole answers, bounded in size and time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
from a2a_tool_capture.canonical import too_deep
from a2a_tool_capture.errors import connection_problem

from ...protocol.operations import decode_json
from ...protocol.sse import EventTooLargeError, SseEvent, SseSplitter
from ..probe.client import MAX_BODY_BYTES, MAX_EVENTS, ProbeConnection
from ..probe.record import OperationRequest, ProbeRequest
from ..probe.requests import GRPC
from .answers import CUT, AnswerPart, SideAnswer, sse_fields

NO_ANSWER = "no answer"
_MAX_DEPTH = 200


class Sender(ProbeConnection):
    """Client of one side. Use as async context manager."""

    def __init__(
        self, headers: Mapping[str, str], timeout_s: float, tls: ssl.SSLContext | None, *, grpc_tls: bool
    ) -> None:
        encodings = {"Accept-Encoding": "gzip, deflate"}
        super().__init__(headers, timeout_s, tls, grpc_tls=grpc_tls, http_headers=encodings)

    async def send(self, request: ProbeRequest) -> SideAnswer:
        """Returns the answer, however it ends; status "no answer" without one."""
        if not isinstance(request, OperationRequest) or request.method != GRPC:
            return await self._request(request)
        from .grpc_sender import call_whole  # only where it is used: grpcio is an optional dependency

        return await call_whole(self.channels, request, self.timeout_s)

    async def _request(self, request: ProbeRequest) -> SideAnswer:
        status, streams, end = NO_ANSWER, False, ""
        headers: tuple[tuple[str, str], ...] = ()
        body = _Body()
        try:
            async with self.answer(request) as response:
                status = str(response.status_code)
                headers = tuple((name.lower(), value) for name, value in response.headers.multi_items())
                streams = response.headers.get("content-type", "").startswith("text/event-stream")
                body = _Events() if streams else _Body()
                async for chunk in response.aiter_bytes():
                    body.feed(chunk, asyncio.get_running_loop().time())
                end = body.rest
        except TimeoutError:
            end = f"not complete within {self.timeout_s:g} s"
        except httpx.RemoteProtocolError:
            end = CUT
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            end = connection_problem(error)
        except EventTooLargeError as error:
            end = str(error)
        return SideAnswer(status, headers, body.parts, streams, end=end, spread_s=body.spread_s)


class _Body:
    """A body that is one value."""

    rest = ""
    spread_s = 0.0

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, chunk: bytes, now: float) -> None:
        """Take a chunk that arrived at `now`, in seconds."""
        self._data += chunk
        if len(self._data) > MAX_BODY_BYTES:
            raise EventTooLargeError(f"longer than {MAX_BODY_BYTES} bytes")

    @property
    def parts(self) -> tuple[AnswerPart, ...]:
        return (AnswerPart(value_of(bytes(self._data))),) if self._data else ()


class _Events(_Body):
    """The events of a stream."""

    def __init__(self) -> None:
        self._splitter = SseSplitter(MAX_BODY_BYTES)
        self._events: list[SseEvent] = []
        self._size = 0
        self._first = 0.0

    def feed(self, chunk: bytes, now: float) -> None:
        self._size += len(chunk)
        if found := [event for event in self._splitter.feed(chunk) if event.data]:
            self._first = self._first if self._events else now
            self.spread_s = now - self._first
            self._events += found
        if self._size > MAX_BODY_BYTES or len(self._events) > MAX_EVENTS:
            raise EventTooLargeError(f"longer than {MAX_BODY_BYTES} bytes or {MAX_EVENTS} events")

    @property
    def rest(self) -> str:  # type: ignore[override]  # "" for a body
        return "inside an event" if self._splitter.rest.strip() else ""

    @property
    def parts(self) -> tuple[AnswerPart, ...]:
        return tuple(AnswerPart(value_of(event.data), sse_fields(event)) for event in self._events)


def value_of(data: bytes) -> Any:
    """The JSON value, or the text of what is not JSON or nested too deeply to be compared."""
    try:
        value = decode_json(data)
    except ValueError:
        return data.decode(errors="replace")
    return data.decode(errors="replace") if too_deep(value, _MAX_DEPTH) else value
