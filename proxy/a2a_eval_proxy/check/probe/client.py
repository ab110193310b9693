"""The client of a check: sends requests over HTTP and gRPC, and reads the answers, bounded in size and time."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any, Self

import httpx
from a2a_tool_capture.card_search import CardAnswer, card_urls, find_card
from a2a_tool_capture.environment_proxies import EnvironmentTransport, UnusableProxyError
from a2a_tool_capture.errors import AgentUnreachableError, ConfigurationError, connection_problem
from a2a_tool_capture.secret_references import resolve_header
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ...protocol.error_bodies import PROXY_DOMAIN
from ...protocol.operations import Binding
from ...protocol.sse import EventTooLargeError, SseSplitter
from .answer import GrpcEnd, WireAnswer, WireMessage
from .record import CardSeen, GrpcError, OperationRequest, ProbeExchange, ProbeRequest, ResponseEvent
from .requests import GRPC, STREAMING, get
from .responses import is_settled, read_response, settled

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
    addresses without a scheme use TLS, `trust_env` whether the proxies of the environment are used.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: ssl.SSLContext | None,
        *,
        grpc_tls: bool,
        trust_env: bool = True,
    ) -> None:
        self.headers, self.timeout_s, self.tls, self.grpc_tls = headers, timeout_s, tls, grpc_tls
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip, deflate", **headers},  # whatever else is installed
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            transport=EnvironmentTransport(tls or True) if trust_env else httpx.AsyncHTTPTransport(verify=tls or True),
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


POLL_S = 0.25
"""Seconds between two reads of a task that has not ended."""
CLOSING_GRACE_S = 1.0
"""Seconds to read a stream after the task is settled: a last snapshot may follow."""

_GIVEN_UP = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""Statuses of calls that no agent answered; an agent may send them, too."""

_SET_BY_CHECK = frozenset({EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower(), "a2a-version"})

Listener = Callable[[ResponseEvent], None]


class ProbeClient(AgentTransport):
    """Client of a check for one agent. Use as async context manager.

    Every request carries `headers`; in their values, `${NAME}` is an environment variable and `${file:PATH}` the
    contents of a file. `timeout_s` is the maximum number of seconds of one exchange. `tls` has the trusted
    authorities and the client certificate; None trusts the system's authorities. Raises ConfigurationError for headers
    that cannot be sent.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        *,
        trust_env: bool = True,
    ) -> None:
        for name in headers:
            if name.lower() in _SET_BY_CHECK:
                raise ConfigurationError(f"header {name!r} is set by the check itself, with several values; remove it")
        filled = {name: resolve_header(name, value) for name, value in headers.items()}
        super().__init__(filled, timeout_s, tls, grpc_tls=False, trust_env=trust_env)
        self.header_values = frozenset(filled.values())
        """To be masked in reports: an agent may quote the request."""

    async def card(self, url: str) -> CardSeen:
        """Fetch the agent's card from where `find_card` looks for it.

        Raises AgentUnreachableError if there is no connection, AgentError if there is no card.
        """
        self.grpc_tls = url.startswith("https://")
        found = await find_card(card_urls(url), self._card_answer)
        return CardSeen(_card_request(found.url), found.card, body=found.body)

    async def is_our_proxy(self, url: str) -> bool:
        """Whether this is an a2a-eval-proxy in place of an agent: it refuses TRACE itself, and signs its errors."""
        answer = await self.answer(ProbeRequest("TRACE", url, ()))
        return any(PROXY_DOMAIN.encode() in message.data for message in answer.messages)

    async def _card_answer(self, url: str) -> CardAnswer:
        answer = await self.answer(_card_request(url))
        if isinstance(answer.failure, UnusableProxyError):
            raise ConfigurationError(str(answer.failure))
        if answer.failure is not None and not isinstance(answer.failure, EventTooLargeError):
            raise AgentUnreachableError(f"{url}: {self._failure(answer.failure, url)}") from answer.failure
        headers = {name.lower(): value for name, value in answer.headers}
        return CardAnswer(answer.status, headers, b"".join(message.data for message in answer.messages))

    async def exchange(self, request: OperationRequest, listener: Listener | None = None) -> ProbeExchange:
        """Send `request` and read the answer; calls `listener` with each event of a stream as it arrives.

        Never raises for a failure of the agent: the exchange's `problem` describes it.
        """
        left_s: float | None = None

        def take(data: bytes) -> float | None:
            """To the end, or for CLOSING_GRACE_S after the task is settled; not at all if that shows it whole."""
            nonlocal left_s
            for event in read_response(request, 200, (), [data]).events:
                if event.normal is not None and is_settled(event.normal):
                    whole = "task" in event.normal and request.operation in STREAMING
                    left_s = 0 if whole else CLOSING_GRACE_S
                if listener is not None:
                    listener(event)
            return left_s

        answer = await self.answer(request, take)
        end, status, problem, error = answer.end, answer.status, "", None
        if answer.failure is not None:
            problem = self._failure(answer.failure)
        if request.interface.binding is Binding.GRPC and not isinstance(answer.failure, TimeoutError):
            status = 200
        if end is not None and end.code != "OK":
            problem, error = f"gRPC {end.code}: {end.message}".rstrip(": "), _grpc_error(end)
            status = 0 if end.code in _GIVEN_UP else 200
        whole = answer.streams or answer.failure is None
        documents = [message.data for message in answer.messages] if whole else []
        fields = (*answer.headers, *(end.trailing if end else ()))
        return replace(read_response(request, status, fields, documents, problem), grpc_error=error)

    def _failure(self, error: Exception, first: str = "") -> str:
        """Why an answer is not whole; `first`: see `connection_problem`."""
        if isinstance(error, TimeoutError):
            return f"no answer within {self.timeout_s:g} s"
        if isinstance(error, EventTooLargeError):
            return str(error)
        connects = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return f"{'cannot connect' if connects else 'the request failed'}: {connection_problem(error, first)}"

    async def finished(self, opening: ProbeExchange, task_id: str) -> ProbeExchange:
        """Returns `opening`, or the first later read of its task that shows a settled state, or the last in time."""
        done = opening
        for _ in range(ceil(self.timeout_s / POLL_S)):
            if done.problem or settled(done):
                break
            await asyncio.sleep(POLL_S)
            done = await self.exchange(get(opening.request.interface, task_id, opening.activation))
        return done


def _card_request(url: str) -> ProbeRequest:
    return ProbeRequest("GET", url, (("Accept", "application/json"),))


def _grpc_error(end: GrpcEnd) -> GrpcError:
    """The error of a status; details that cannot be read count as absent."""
    status, info = Status(), ErrorInfo()
    try:
        status.ParseFromString(end.details or b"")
        if any(detail.Unpack(info) for detail in status.details):
            return GrpcError(end.code, end.message, info.reason, info.domain)
    except DecodeError:
        pass
    return GrpcError(end.code, end.message)
