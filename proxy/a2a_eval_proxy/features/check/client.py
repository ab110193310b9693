"""The client of a check: sends requests over HTTP and gRPC, and reads the answers, bounded in size and time."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Self

import httpx
from a2a_tool_capture.card_search import CardAnswer, card_urls, find_card
from a2a_tool_capture.client_tls import HOST, grpc_channel
from a2a_tool_capture.environment_proxies import EnvironmentTransport, UnusableProxyError
from a2a_tool_capture.errors import AgentUnreachableError, ConfigurationError, connection_problem
from a2a_tool_capture.secret_references import resolve_header
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER
from google.protobuf.json_format import ParseDict

from ...grpc_relay.messages import METHODS, as_json, decoded
from ...protocol.error_bodies import PROXY_DOMAIN
from ...protocol.sse import EventTooLargeError, SseSplitter
from .record import (
    STREAMING,
    CardSeen,
    OperationRequest,
    ProbeExchange,
    ProbeRequest,
    ResponseEvent,
    is_settled,
    read_response,
    settled,
)
from .requests import GRPC, get

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 10_000
CONNECT_TIMEOUT_S = 10.0
POLL_S = 0.25
"""Seconds between two reads of a task that has not ended."""
CLOSING_GRACE_S = 1.0
"""Seconds to read a stream after the task is settled: a last snapshot may follow."""

_GIVEN_UP = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""Statuses of calls that no agent answered; an agent may send them, too."""

_SET_BY_CHECK = frozenset({EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower(), "a2a-version"})

Listener = Callable[[ResponseEvent], None]

Hear = Callable[[bytes], float | None]
"""Called with each document as it arrives; returns for how many seconds to read on, None: to the end."""


@dataclass(slots=True)
class _Answer:
    """An answer as far as it came. `documents` are the whole body, or the data of each event or message of a stream."""

    status: int = 0
    """That of HTTP; 200 over gRPC, 0 without an answer."""
    headers: list[tuple[str, str]] = field(default_factory=list)
    documents: list[bytes] = field(default_factory=list)
    grpc_status: str = ""
    grpc_message: str = ""
    failure: Exception | None = None
    """Why it is not whole."""


class ProbeClient:
    """Client of a check for one agent. Use as async context manager.

    Every request carries `headers`; in their values, `${NAME}` is an environment variable and `${file:PATH}` the
    contents of a file. `timeout_s` is the maximum number of seconds of one exchange. `tls` has the trusted
    authorities and the client certificate; None trusts the system's authorities. `trust_env`: use the proxies of the
    environment. Raises ConfigurationError for headers that cannot be sent.
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
        self._headers = {name: resolve_header(name, value) for name, value in headers.items()}
        self.header_values = frozenset(self._headers.values())
        """To be masked in reports: an agent may quote the request."""
        self._timeout_s, self._tls = timeout_s, tls
        self._grpc_tls = False
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "gzip, deflate", **self._headers},  # whatever else is installed
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            transport=EnvironmentTransport(tls or True) if trust_env else httpx.AsyncHTTPTransport(verify=tls or True),
        )
        self._channels: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        for channel in self._channels.values():
            await channel.close(None)

    async def card(self, url: str) -> CardSeen:
        """Fetch the agent's card from where `find_card` looks for it.

        Raises AgentUnreachableError if there is no connection, AgentError if there is no card.
        """
        self._grpc_tls = url.startswith("https://")
        found = await find_card(card_urls(url), self._card_answer)
        return CardSeen(_card_request(found.url), found.card)

    async def is_our_proxy(self, url: str) -> bool:
        """Whether this is an a2a-eval-proxy in place of an agent: it refuses TRACE itself, and signs its errors."""
        answer = await self._answer(ProbeRequest("TRACE", url))
        return any(PROXY_DOMAIN.encode() in document for document in answer.documents)

    async def _card_answer(self, url: str) -> CardAnswer:
        answer = await self._answer(_card_request(url))
        if isinstance(answer.failure, UnusableProxyError):
            raise ConfigurationError(str(answer.failure))
        if answer.failure is not None and not isinstance(answer.failure, EventTooLargeError):
            raise AgentUnreachableError(f"{url}: {self._problem(answer.failure, url)}") from answer.failure
        headers = {name.lower(): value for name, value in answer.headers}
        return CardAnswer(answer.status, headers, b"".join(answer.documents))

    async def exchange(self, request: OperationRequest, listener: Listener = lambda event: None) -> ProbeExchange:
        """Send `request` and read the answer; calls `listener` with each event of a stream as it arrives.

        Never raises for a failure of the agent: the exchange's `problem` describes it.
        """
        left_s: float | None = None

        def hear(document: bytes) -> float | None:
            """To the end, or for CLOSING_GRACE_S after the task is settled; not at all if that shows it whole."""
            nonlocal left_s
            for event in read_response(request, 200, (), [document]).events:
                if event.normal is not None and is_settled(event.normal):
                    whole = "task" in event.normal and request.operation in STREAMING
                    left_s = 0 if whole else CLOSING_GRACE_S
                listener(event)
            return left_s

        answer = await self._answer(request, hear)
        problem = ""
        if answer.failure is not None:
            problem = self._problem(answer.failure)
        elif answer.grpc_status not in ("", "OK"):
            problem = f"gRPC {answer.grpc_status}: {answer.grpc_message}".rstrip(": ")
        return read_response(
            request, answer.status, answer.headers, answer.documents, problem, grpc_status=answer.grpc_status
        )

    async def finished(self, opening: ProbeExchange, task_id: str) -> ProbeExchange:
        """Returns `opening`, or the first later read of its task that shows a settled state, or the last in time."""
        done = opening
        for _ in range(ceil(self._timeout_s / POLL_S)):
            if done.problem or settled(done):
                break
            await asyncio.sleep(POLL_S)
            done = await self.exchange(get(opening.request.interface, task_id, opening.activation))
        return done

    def _problem(self, error: Exception, first: str = "") -> str:
        """Why an answer is not whole; `first`: see `connection_problem`."""
        if isinstance(error, TimeoutError):
            return f"no answer within {self._timeout_s:g} s"
        if isinstance(error, EventTooLargeError | ConfigurationError):
            return str(error)
        connects = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return f"{'cannot connect' if connects else 'the request failed'}: {connection_problem(error, first)}"

    async def _answer(self, request: ProbeRequest, hear: Hear = lambda document: None) -> _Answer:
        """The answer, however it ends. Raises ImportError for gRPC without grpcio."""
        answer, size = _Answer(), 0
        documents = self._called(request, answer) if request.method == GRPC else self._requested(request, answer)
        now = asyncio.get_running_loop().time
        latest, left_s = now() + self._timeout_s, None
        try:
            async with asyncio.timeout_at(latest) as limit, aclosing(documents):
                async for document in documents:
                    answer.documents.append(document)
                    size += len(document)
                    if size > MAX_BODY_BYTES or len(answer.documents) > MAX_EVENTS:
                        raise EventTooLargeError(f"the stream exceeds {MAX_BODY_BYTES} bytes or {MAX_EVENTS} events")
                    left_s = hear(document)
                    if left_s == 0:
                        break
                    if left_s is not None:
                        limit.reschedule(min(now() + left_s, latest))
        except TimeoutError as error:
            answer.failure = error if left_s is None else None
        except (httpx.HTTPError, httpx.InvalidURL, EventTooLargeError, ConfigurationError) as error:
            answer.failure = error
        return answer

    async def _requested(self, request: ProbeRequest, answer: _Answer) -> AsyncGenerator[bytes, None]:
        """Over HTTP: yields the data of each server-sent event, or the whole body."""
        sent: dict[str, Any] = {"headers": list(request.headers), "content": request.body or None}
        async with self._http.stream(request.method, request.url, **sent) as response:
            answer.status = response.status_code
            answer.headers += response.headers.multi_items()
            streams = response.headers.get("content-type", "").startswith("text/event-stream")
            splitter, body = SseSplitter(MAX_BODY_BYTES), bytearray()
            async for chunk in response.aiter_bytes():
                if streams:
                    for event in splitter.feed(chunk):
                        if event.data:
                            yield event.data
                    continue
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise EventTooLargeError(f"the answer exceeds {MAX_BODY_BYTES} bytes")
            if body:
                yield bytes(body)

    async def _called(self, request: ProbeRequest, answer: _Answer) -> AsyncGenerator[bytes, None]:
        """Over gRPC: yields each message as JSON. On the wire, a call with one answer is a stream of one message."""
        import grpc.aio

        address, service, name = request.url.rsplit("/", 2)
        method = METHODS[f"/{service}/{name}"]
        message = ParseDict(json.loads(request.body), method.request_type()).SerializeToString()
        given = [(name.lower(), value) for name, value in self._headers.items()]
        if address not in self._channels:
            options = [("grpc.max_receive_message_length", MAX_BODY_BYTES), ("grpc.enable_http_proxy", 0)]
            hosts = [each for each in given if each[0] == HOST]
            self._channels[address] = grpc_channel(address, self._tls, options, secure=self._grpc_tls, headers=hosts)
        metadata = [*(each for each in given if each[0] != HOST), *request.headers]
        call = self._channels[address].unary_stream(f"/{service}/{name}")(message, metadata=metadata)
        try:
            answer.headers += _texts(await call.initial_metadata())
            answer.status, answer.grpc_status = 200, "OK"
            async for data in call:
                try:
                    yield json.dumps(as_json(decoded(method.response_type, data))).encode()
                except ValueError:
                    yield data  # read as what it is: not A2A
        except grpc.aio.AioRpcError:
            pass  # its status is read below
        finally:
            call.cancel()
        answer.headers += _texts(await call.trailing_metadata())
        answer.grpc_status, answer.grpc_message = (await call.code()).name, str(await call.details() or "")
        answer.status = 0 if answer.grpc_status in _GIVEN_UP else 200


def _texts(metadata: Any) -> list[tuple[str, str]]:
    """The entries of gRPC metadata that are text."""
    return [(name, value) for name, value in metadata or () if isinstance(value, str)]


def _card_request(url: str) -> ProbeRequest:
    return ProbeRequest("GET", url, (("Accept", "application/json"),))
