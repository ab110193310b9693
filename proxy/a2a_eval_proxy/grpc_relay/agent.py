"""The agent's gRPC port: where it is, the calls to it, and its card from there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from h2.errors import ErrorCodes

from ..net.file_watcher import FileWatch
from ..net.grpc_wire import GrpcMessage, GrpcStatus, MessageReader, MessageTooLargeError, status_of
from ..net.http2_client import Http2Client
from ..net.http2_streams import Data, Fields, Http2Stream, Reset
from ..net.http_client import UpstreamCutError, UpstreamError
from ..net.tls import HTTP_2, TlsFiles
from ..relay.negotiation import Negotiation
from ..relay.upstream import CARD_TIMEOUT_S, MAX_CARD_BYTES, Upstream
from ..settings.parts import AgentSettings
from .messages import METHODS, as_json, decoded


class GrpcAgent:
    """The agent at `grpc_upstream`, or else at the address in its card."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Reads the files of TLS. Raises ConfigError."""
        self._address = settings.grpc_upstream
        self._http = Http2Client(
            connect_timeout_s=settings.timeouts.connect, max_header_bytes=settings.limits.header_bytes
        )
        self._tls: ssl.SSLContext | None = None
        if settings.upstream_is_secure:
            self._files = TlsFiles.of(settings.upstream_tls, "upstream_tls.", alpn=HTTP_2)
            files.add("TLS to the agent over gRPC", self._files.paths, self._load)

    def _load(self) -> None:
        self._tls = self._files.client_context()

    async def address(self, negotiation: Negotiation) -> str | None:
        """HOST:PORT, once the agent's card is known; None where the card names none."""
        await negotiation.prepare(asyncio.get_running_loop().time())
        return self._address or negotiation.grpc_address

    async def begin(self, address: str, fields: Fields) -> Http2Stream:
        """Begin a call, whose fields begin with its method and path. Raises UpstreamError."""
        scheme = b"http" if self._tls is None else b"https"
        return await self._http.open(
            address, self._tls, [(b":scheme", scheme), (b":authority", address.encode()), *fields], end=False
        )

    def close(self) -> None:
        """Begin no further call; open ones continue."""
        self._http.close()


_CARD_METHODS = (("/lf.a2a.v1.A2AService/GetExtendedAgentCard", b"1.0"), ("/a2a.v1.A2AService/GetAgentCard", b"0.3"))


def card_of(settings: AgentSettings, upstream: Upstream, files: FileWatch) -> Callable[[], Awaitable[Any]]:
    """A function that fetches the agent's card: over HTTP, or of an agent that has only gRPC its extended card.

    It raises UpstreamError (no response), TimeoutError, or ValueError (no card).
    """
    if settings.grpc_upstream is None:
        return upstream.fetch_card
    agent = GrpcAgent(settings, files)
    return lambda: _fetch_card(agent, settings.grpc_upstream or "", upstream)


async def _fetch_card(agent: GrpcAgent, address: str, upstream: Upstream) -> Any:
    refusals = []
    try:
        async with asyncio.timeout(CARD_TIMEOUT_S):
            for path, version in _CARD_METHODS:
                fields = [(b"content-type", b"application/grpc"), (b"te", b"trailers"), (b"a2a-version", version)]
                call = [(b":method", b"POST"), (b":path", path.encode()), *upstream.headers(fields, has_host=False)]
                stream = await agent.begin(address, call)
                try:
                    stream.send_data(GrpcMessage(b"").frame, end=True)
                    status, text, message = await _answer(stream)
                finally:
                    stream.reset(ErrorCodes.CANCEL)  # nothing, where it has ended
                if status is GrpcStatus.UNAVAILABLE:
                    raise UpstreamError(text)
                if status is GrpcStatus.OK:
                    return as_json(decoded(METHODS[path].response_type, message))
                refusals.append(f"{status.name}: {text}")
    finally:
        agent.close()
    raise ValueError(f"no extended agent card at {upstream.base} ({refusals[0]})")


async def _answer(stream: Http2Stream) -> tuple[GrpcStatus, str, bytes | None]:
    """Status, message of the status, and the one message of a unary call."""
    reader, message, fields = MessageReader(MAX_CARD_BYTES), None, []
    while True:
        event = await stream.next()
        if isinstance(event, Reset):
            raise UpstreamCutError(event.reason or f"the agent reset the call (code {event.code})")
        if isinstance(event, Data):
            stream.taken(event.size)
            try:
                for one in reader.feed(event.content):
                    message = one.content([], MAX_CARD_BYTES)
            except MessageTooLargeError:
                raise UpstreamError(f"the agent card exceeds {MAX_CARD_BYTES} bytes") from None
        else:
            fields += event.fields
        if event.ended:
            return *status_of(fields), message
