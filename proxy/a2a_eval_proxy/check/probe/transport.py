"""Sends requests over HTTP and gRPC and reads the answers, bounded in size and time. Interprets nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

import httpx

from ...protocol.sse import EventTooLargeError, SseSplitter
from .answer import WireAnswer, WireMessage
from .record import ProbeRequest
from .requests import GRPC

if TYPE_CHECKING:
    from .grpc_client import GrpcChannels

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 10_000
CONNECT_TIMEOUT_S = 10.0

Take = Callable[[bytes], float | None]
"""Called with each event of a stream as it arrives; returns for how many seconds to read on, None: to the end."""


class AgentTransport:
    """HTTP client and gRPC channels to one agent. Use as async context manager.

    Every request carries `headers`. `timeout_s` is the maximum number of seconds of one answer. `tls` has the trusted
    authorities and the client certificate; None trusts the system's authorities. `grpc_tls` says whether gRPC
    addresses without a scheme use TLS.
    """

    def __init__(
        self, headers: Mapping[str, str], timeout_s: float, tls: ssl.SSLContext | None, *, grpc_tls: bool
    ) -> None:
        self.headers, self.timeout_s, self.tls, self.grpc_tls = headers, timeout_s, tls, grpc_tls
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip, deflate", **headers},  # whatever else is installed
            verify=tls or True,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        )
        self._channels: GrpcChannels | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        if self._channels is not None:
            await self._channels.close()

    async def answer(self, request: ProbeRequest, take: Take = lambda event: None) -> WireAnswer:
        """The answer, however it ends. Raises ImportError for gRPC without grpcio."""
        answer = WireAnswer()
        messages = self._called(request, answer) if request.method == GRPC else self._requested(request, answer)
        try:
            async with asyncio.timeout(self.timeout_s), aclosing(messages):
                await _read(messages, answer.messages, take)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, EventTooLargeError) as error:
            answer.failure = error
        return answer

    def _called(self, request: ProbeRequest, answer: WireAnswer) -> AsyncGenerator[WireMessage, None]:
        from .grpc_client import GrpcChannels  # only where it is used: grpcio is an optional dependency

        if self._channels is None:
            self._channels = GrpcChannels(self.headers.items(), self.tls, self.grpc_tls, MAX_BODY_BYTES)
        return self._channels.messages(request, answer)

    async def _requested(self, request: ProbeRequest, answer: WireAnswer) -> AsyncGenerator[WireMessage, None]:
        """Yields the events of a stream; other bodies are put into the answer at once."""
        now = asyncio.get_running_loop().time
        sent: dict[str, Any] = {"headers": list(request.headers), "content": request.body or None}
        async with self._http.stream(request.method, request.url, **sent) as response:
            answer.status = response.status_code
            answer.headers += response.headers.multi_items()
            answer.streams = response.headers.get("content-type", "").startswith("text/event-stream")
            if not answer.streams:
                body = bytearray()
                try:
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > MAX_BODY_BYTES:
                            raise EventTooLargeError(f"the answer exceeds {MAX_BODY_BYTES} bytes")
                finally:
                    answer.messages += [WireMessage(bytes(body), now())] if body else []
                return
            splitter = SseSplitter(MAX_BODY_BYTES)
            async for chunk in response.aiter_bytes():
                for event in splitter.feed(chunk):
                    yield WireMessage(event.data, now(), event.raw)
            answer.unfinished = bool(splitter.rest.strip())


async def _read(messages: AsyncGenerator[WireMessage, None], kept: list[WireMessage], take: Take) -> None:
    """Keep the events, without comments, until the end or for as long as `take` says. Raises EventTooLargeError."""
    size = 0
    try:
        async with asyncio.timeout(None) as closing:
            async for message in messages:
                if not message.data:
                    continue
                size += len(message.data)
                kept.append(message)
                left_s = take(message.data)
                if left_s == 0:
                    return
                if left_s is not None:
                    closing.reschedule(asyncio.get_running_loop().time() + left_s)
                if size > MAX_BODY_BYTES or len(kept) > MAX_EVENTS:
                    raise EventTooLargeError(f"the stream exceeds {MAX_BODY_BYTES} bytes or {MAX_EVENTS} events")
    except TimeoutError:
        if not closing.expired():
            raise
