"""Sends the requests of a check over HTTP and reads the answers, bounded in size and time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Self

import httpx
from a2a_tool_capture.client import AgentError, AgentUnreachableError, ConfigurationError
from a2a_tool_capture.errors import connection_problem
from a2a_tool_capture.secret_references import resolve_header
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER

from ...protocol.agent_card import WELL_KNOWN_PATHS
from ...protocol.operations import Binding, decode_json
from ...protocol.sse import EventTooLargeError, SseSplitter
from .record import CardSeen, OperationRequest, ProbeExchange, ProbeRequest, ResponseEvent
from .requests import STREAMING, get
from .responses import is_settled, read_response, settled

if TYPE_CHECKING:
    from .grpc_client import GrpcChannels

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 10_000
CONNECT_TIMEOUT_S = 10.0
POLL_S = 0.25
"""Seconds between two reads of a task that has not ended."""
CLOSING_GRACE_S = 1.0
"""Seconds to read a stream after the task is settled: a last snapshot may follow."""

_SET_BY_CHECK = frozenset({EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower(), "a2a-version"})

Listener = Callable[[ResponseEvent], None]


class ProbeConnection:
    """HTTP client and gRPC channels to one agent. Use as async context manager.

    Every request carries `headers`. `timeout_s` is the maximum number of seconds of one answer. `tls` has the trusted
    authorities and the client certificate; None trusts the system's authorities. `grpc_tls` says whether gRPC
    addresses without a scheme use TLS. `http_headers` are further headers of requests over HTTP.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: ssl.SSLContext | None,
        *,
        grpc_tls: bool,
        http_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.headers, self.timeout_s, self.tls, self.grpc_tls = headers, timeout_s, tls, grpc_tls
        self._http = httpx.AsyncClient(
            headers={**(http_headers or {}), **headers},
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

    @property
    def channels(self) -> GrpcChannels:
        """The channels of gRPC. Raises ImportError without grpcio."""
        from .grpc_client import GrpcChannels  # only where it is used: grpcio is an optional dependency

        if self._channels is None:
            self._channels = GrpcChannels(self.headers.items(), self.tls, self.grpc_tls, MAX_BODY_BYTES)
        return self._channels

    @asynccontextmanager
    async def answer(self, request: ProbeRequest) -> AsyncIterator[httpx.Response]:
        """Send a request over HTTP; TimeoutError interrupts the reading after `timeout_s`."""
        sent: dict[str, Any] = {"headers": list(request.headers), "content": request.body or None}
        async with (
            asyncio.timeout(self.timeout_s),
            self._http.stream(request.method, request.url, **sent) as response,
        ):
            yield response


class ProbeClient(ProbeConnection):
    """Client of a check for one agent. Use as async context manager.

    Every request carries `headers`; in their values, `${NAME}` is an environment variable and `${file:PATH}` the
    contents of a file. `timeout_s` is the maximum number of seconds of one exchange. `tls` has the trusted
    authorities and the client certificate; None trusts the system's authorities. Raises ConfigurationError for headers
    that cannot be sent.
    """

    def __init__(self, headers: Mapping[str, str], timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        for name in headers:
            if name.lower() in _SET_BY_CHECK:
                raise ConfigurationError(f"header {name!r} is set by the check itself, with several values; remove it")
        filled = {name: resolve_header(name, value) for name, value in headers.items()}
        super().__init__(filled, timeout_s, tls, grpc_tls=False)
        self.header_values = frozenset(filled.values())
        """To be masked in reports: an agent may quote the request."""

    async def card(self, url: str) -> CardSeen:
        """Fetch the agent card from its well-known paths under `url`.

        Raises AgentUnreachableError if there is no connection, AgentError if there is no card.
        """
        self.grpc_tls = url.startswith("https://")
        problem = ""
        for path in sorted(WELL_KNOWN_PATHS):  # agent-card.json, then its older name
            request = ProbeRequest("GET", url.rstrip("/") + path, (("Accept", "application/json"),))
            try:
                async with self.answer(request) as response:
                    body = await _body(response)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                problem = _describe_failure(error, self.timeout_s, request.url)
                raise AgentUnreachableError(f"{request.url}: {problem}") from error
            if response.is_success:
                try:
                    card = decode_json(body[:MAX_BODY_BYTES])
                except ValueError:
                    card = None
                if not isinstance(card, dict):
                    raise AgentError(f"{request.url} is not an agent card: expected a JSON object")
                return CardSeen(request, card, body=body)
            problem = problem or f"{request.url} answered HTTP {response.status_code}"
            if response.status_code != httpx.codes.NOT_FOUND:
                break
        raise AgentError(f"{problem}: no agent card found")

    async def exchange(self, request: OperationRequest, listener: Listener | None = None) -> ProbeExchange:
        """Send `request` and read the answer; calls `listener` with each event of a stream as it arrives.

        Never raises for a failure of the agent: the exchange's `problem` describes it.
        """
        status = 0
        headers: list[tuple[str, str]] = []
        documents = _Documents(request, listener)
        if request.interface.binding is Binding.GRPC:
            return await self._call(request, documents)
        problem = ""
        try:
            async with self.answer(request) as response:
                status = response.status_code
                headers = response.headers.multi_items()
                streams = response.headers.get("content-type", "").startswith("text/event-stream")
                problem = await (documents.read_stream(response) if streams else documents.read_body(response))
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            problem = _describe_failure(error, self.timeout_s)
        return read_response(request, status, headers, documents.read, problem)

    async def _call(self, request: OperationRequest, documents: _Documents) -> ProbeExchange:
        """`exchange` over gRPC."""
        from .grpc_client import CallFailed  # only where it is used: grpcio is an optional dependency

        metadata: list[tuple[str, str]] = []
        status, problem, error = 200, "", None
        try:
            async with asyncio.timeout(self.timeout_s), aclosing(self.channels.answers(request, metadata)) as messages:
                problem = await documents.read_events(messages)
        except TimeoutError as failure:
            status, problem = 0, _describe_failure(failure, self.timeout_s)
        except CallFailed as failure:
            status, problem, error = (200 if failure.answered else 0), str(failure), failure.error
        except ValueError as failure:
            problem = str(failure)
        exchange = read_response(request, status, metadata, documents.read, problem)
        return replace(exchange, grpc_error=error)

    async def finished(self, opening: ProbeExchange, task_id: str) -> ProbeExchange:
        """Returns `opening`, or the first later read of its task that shows a settled state, or the last in time."""
        done = opening
        for _ in range(ceil(self.timeout_s / POLL_S)):
            if done.problem or settled(done):
                break
            await asyncio.sleep(POLL_S)
            done = await self.exchange(get(opening.request.interface, task_id, opening.activation))
        return done


class _Documents:
    """Collects the JSON documents of one answer."""

    def __init__(self, request: OperationRequest, listener: Listener | None) -> None:
        self.read: list[bytes] = []
        self._request = request
        self._listener = listener
        self._settled = False
        """Whether an event shows that the agent finished the message ..."""
        self._whole = False
        """... and that event is the whole task."""

    async def read_body(self, response: httpx.Response) -> str:
        body = await _body(response)
        if len(body) > MAX_BODY_BYTES:
            return f"the answer exceeds {MAX_BODY_BYTES} bytes"
        if body:
            self.read.append(body)
        return ""

    async def read_stream(self, response: httpx.Response) -> str:
        """Read server-sent events as `read_events` does. Returns the problem, "" for none."""
        async with aclosing(_server_sent(response)) as events:
            return await self.read_events(events)

    async def read_events(self, events: AsyncIterator[bytes]) -> str:
        """Read to the end, or to CLOSING_GRACE_S after the task is settled. Returns the problem, "" for none."""
        size = 0
        try:
            async with asyncio.timeout(None) as closing:
                async for event in events:
                    size += len(event)
                    if event:
                        self._take(event)
                    if self._whole and self._request.operation in STREAMING:
                        return ""
                    if self._settled:
                        closing.reschedule(asyncio.get_running_loop().time() + CLOSING_GRACE_S)
                    if size > MAX_BODY_BYTES or len(self.read) > MAX_EVENTS:
                        return f"the stream exceeds {MAX_BODY_BYTES} bytes or {MAX_EVENTS} events"
        except EventTooLargeError as error:
            return str(error)
        except TimeoutError:
            if not closing.expired():
                raise
        return ""

    def _take(self, data: bytes) -> None:
        self.read.append(data)
        for event in read_response(self._request, 200, (), [data]).events:
            if event.normal is not None and is_settled(event.normal):
                self._settled = True
                self._whole = "task" in event.normal
            if self._listener is not None:
                self._listener(event)


async def _server_sent(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yields the data of each event; b"" for a comment. Raises EventTooLargeError."""
    splitter = SseSplitter(MAX_BODY_BYTES)
    async for chunk in response.aiter_bytes():
        for event in splitter.feed(chunk):
            yield event.data or b""


async def _body(response: httpx.Response) -> bytes:
    """Returns the body; of one longer than MAX_BODY_BYTES, the start, which is longer than that too."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            break
    return bytes(body)


def _describe_failure(error: Exception, timeout_s: float, first: str = "") -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:g} s"
    what = "cannot connect" if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) else "the request failed"
    return f"{what}: {connection_problem(error, first)}"
