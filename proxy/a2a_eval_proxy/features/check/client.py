"""The client of a check: the transports of a2a-sdk, with the request and the answer as evidence, bounded in size and
time."""

from __future__ import annotations

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil
from typing import Any, Self

import httpx
from a2a.client import ClientCallContext
from a2a.client.card_resolver import parse_agent_card
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import (
    AgentCard,
    AgentInterface,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from a2a_tool_capture.agent_connection import AgentConnection, mapped_errors
from a2a_tool_capture.canonical import with_whole_numbers
from a2a_tool_capture.card_search import CardAnswer, card_urls, find_card
from a2a_tool_capture.client_tls import HOST
from a2a_tool_capture.environment_proxies import EnvironmentTransport
from a2a_tool_capture.errors import (
    AgentError,
    AgentUnreachableError,
    CaptureError,
    ConfigurationError,
    is_web_page,
)
from a2a_tool_capture.secret_references import resolve_header
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER, is_capture_uri
from google.protobuf.json_format import MessageToDict, ParseError
from google.protobuf.timestamp_pb2 import Timestamp

from ...protocol.error_bodies import PROXY_DOMAIN
from ...protocol.operations import RPC_METHODS, Operation
from .record import (
    STREAMING,
    Activation,
    CardSeen,
    Event,
    Interface,
    NotChecked,
    ProbeExchange,
    ProbeRequest,
    is_settled,
)

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_EVENTS = 10_000
CONNECT_TIMEOUT_S = 10.0
POLL_S = 0.25
"""Seconds between two reads of a task that has not ended."""
CLOSING_GRACE_S = 1.0
"""Seconds to read a stream after the task is settled: a last snapshot may follow."""
LISTED_TASKS = 50
LEAST_LENGTH = 6
"""Minimum length of a credential; shorter words also occur in ordinary text."""
GRPC_MISSING = "gRPC needs grpcio: pip install 'a2a-eval-proxy[grpc]'"

_SET_BY_CHECK = frozenset({EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower(), "a2a-version"})
_SHOWN = _SET_BY_CHECK | {"accept", "content-type"}

_TRANSPORTS: Mapping[tuple[str, bool], Callable[..., Any]] = {
    ("JSONRPC", False): JsonRpcTransport,
    ("JSONRPC", True): CompatJsonRpcTransport,
    ("HTTP+JSON", False): RestTransport,
    ("HTTP+JSON", True): CompatRestTransport,
}
_METHODS = {
    Operation.SEND: "send_message",
    Operation.STREAM: "send_message_streaming",
    Operation.GET: "get_task",
    Operation.LIST: "list_tasks",
    Operation.SUBSCRIBE: "subscribe",
}

Listener = Callable[[Event], None]


@dataclass(slots=True)
class _Transferred:
    request: ProbeRequest
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)


_seen: ContextVar[_Transferred] = ContextVar("seen")
"""Of the exchange of this task."""


async def _sent(request: httpx.Request) -> None:
    headers = [(name.decode(), value.decode()) for name, value in request.headers.raw]
    shown = tuple((name, value) for name, value in headers if name.lower() in _SHOWN)
    _seen.get().request = ProbeRequest(request.method, str(request.url), shown, request.content.decode())


async def _answered(response: httpx.Response) -> None:
    seen = _seen.get()
    seen.status, seen.headers = response.status_code, response.headers.multi_items()
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AgentError("the answer is compressed, although the request accepts only `identity`")
    response.stream = _Bounded(response)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, response: httpx.Response) -> None:
        self._stream: Any = response.stream
        self._in_lines = "text/event-stream" in response.headers.get("content-type", "")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        begun: list[bytes] = []
        async for chunk in self._stream:
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise AgentError(f"the answer exceeds {MAX_BODY_BYTES} bytes")
            for piece in chunk.splitlines(keepends=True) if self._in_lines else (chunk,):
                begun.append(piece)
                if self._in_lines and piece.endswith((b"\n", b"\r")):
                    yield _without_unreadable_times(b"".join(begun))
                    begun.clear()
        yield _without_unreadable_times(b"".join(begun))

    async def aclose(self) -> None:
        await self._stream.aclose()


def _without_unreadable_times(data: bytes) -> bytes:
    """An answer, or a line of a stream, without the times of a status that protobuf refuses, and a2a-sdk with it.

    No rule reads them. Those of fasta2a, for example, have no offset.
    """
    prefix = b"data:" if data.startswith(b"data:") else b""
    try:
        payload = json.loads(data[len(prefix) :], object_hook=_without_unreadable_time)
    except (ValueError, RecursionError):
        return data
    return prefix + json.dumps(payload).encode() + b"\n"


def _without_unreadable_time(value: dict[str, Any]) -> dict[str, Any]:
    if "state" in value and isinstance(value.get("timestamp"), str):
        try:
            Timestamp().FromJsonString(value["timestamp"])
        except ValueError:
            del value["timestamp"]
    return value


class ProbeClient:
    """Client of a check for one agent. Use as async context manager.

    Every request carries `headers`; in their values, `${NAME}` is an environment variable and `${file:PATH}` the
    contents of a file. What the agent says is kept with `***` in place of every credential in them. `timeout_s` is the
    maximum number of seconds of one exchange. `tls` has the trusted authorities and the client certificate; None trusts
    the system's authorities. Raises ConfigurationError for headers that cannot be sent.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        for name in headers:
            if name.lower() in _SET_BY_CHECK:
                raise ConfigurationError(f"header {name!r} is set by the check itself, with several values; remove it")
        self._headers = {name: resolve_header(name, value) for name, value in headers.items()}
        self._credentials = _credentials_in(self._headers.values())
        self._timeout_s, self._tls = timeout_s, tls
        self._connection = self._connected("")
        self._http = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **self._headers},
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            transport=EnvironmentTransport(tls or True),
            event_hooks={"request": [_sent], "response": [_answered]},
        )
        self._transports: dict[tuple[str, bool, str], Any] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()
        await self._http.aclose()

    async def card(self, url: str) -> tuple[CardSeen, AgentCard, list[NotChecked]]:
        """Fetch the agent's card from where `find_card` looks for it; that of an agent at grpc:// over gRPC.

        Returns it as JSON, and as a2a-sdk reads it: without interfaces and with a reason if it does not. Raises
        AgentUnreachableError, AgentError if there is no card, ConfigurationError for gRPC without grpcio.
        """
        self._connection = self._connected(url)
        if url.startswith(("grpc://", "grpcs://")):
            return await self._card_over_grpc(url)
        found = await find_card(card_urls(url), self._card_answer)
        seen = CardSeen(_seen.get().request, self._masked(found.card))
        older = {name: value for name, value in found.card.items() if name != "supportedInterfaces"}
        try:
            card = parse_agent_card(deepcopy(found.card))
            card.supported_interfaces.extend(
                each for each in parse_agent_card(deepcopy(older)).supported_interfaces if found.card != older
            )
        except (ParseError, ValueError, TypeError, AttributeError) as error:
            return seen, AgentCard(), [NotChecked("agent card", self._mask(f"a2a-sdk cannot read it: {error}"))]
        return seen, card, []

    async def _card_over_grpc(self, url: str) -> tuple[CardSeen, AgentCard, list[NotChecked]]:
        """The extended card, with the interface over which it came; `missing` if there is none."""
        card, interface = await self._connection.card_and_interface(None, None)
        request = ProbeRequest("gRPC", f"{url}/GetExtendedAgentCard")
        seen = CardSeen(request, self._masked(MessageToDict(card)), 0, missing=card.name == url)
        del card.supported_interfaces[:]
        interface.url = url
        card.supported_interfaces.append(interface)
        return seen, card, []

    async def is_our_proxy(self, url: str) -> bool:
        """Whether this is an a2a-eval-proxy in place of an agent: it refuses TRACE itself, and signs its errors."""
        _seen.set(_Transferred(ProbeRequest("TRACE", url)))
        try:
            async with asyncio.timeout(self._timeout_s):
                return PROXY_DOMAIN in (await self._http.request("TRACE", url)).text
        except (TimeoutError, httpx.HTTPError, CaptureError):
            return False

    async def _card_answer(self, url: str) -> CardAnswer:
        _seen.set(_Transferred(ProbeRequest("GET", url)))
        try:
            async with asyncio.timeout(self._timeout_s):
                with mapped_errors(url, first=True):
                    response = await self._http.get(url, headers={"Accept": "application/json"})
        except TimeoutError:
            raise AgentUnreachableError(f"{url}: no answer within {self._timeout_s:g} s") from None
        return CardAnswer(response.status_code, response.headers, response.content)

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────

    async def send(
        self,
        interface: Interface,
        operation: Operation,
        text: str,
        activation: Activation,
        task_id: str = "",
        listener: Listener = lambda event: None,
    ) -> ProbeExchange:
        """SendMessage or SendStreamingMessage; a `task_id` continues that task. `listener`: see `exchange`."""
        message = Message(message_id=uuid.uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id)
        if activation is Activation.V1_IN_WRONG_PLACE:
            message.extensions.extend(activation.uris)
        request = SendMessageRequest(message=message)
        if interface.legacy and operation is Operation.SEND:
            request.configuration.CopyFrom(SendMessageConfiguration())  # to wait is the default in 1.0 alone
        return await self.exchange(interface, operation, activation, request, listener)

    async def get(self, interface: Interface, task_id: str, activation: Activation) -> ProbeExchange:
        return await self.exchange(interface, Operation.GET, activation, GetTaskRequest(id=task_id))

    async def list_tasks(self, interface: Interface, context_id: str, activation: Activation) -> ProbeExchange:
        """ListTasks of a conversation, with artifacts. A2A 1.0 only: 0.3 has no such operation."""
        request = ListTasksRequest(context_id=context_id, include_artifacts=True, page_size=LISTED_TASKS)
        return await self.exchange(interface, Operation.LIST, activation, request)

    async def subscribe(self, interface: Interface, task_id: str, activation: Activation) -> ProbeExchange:
        return await self.exchange(interface, Operation.SUBSCRIBE, activation, SubscribeToTaskRequest(id=task_id))

    async def finished(self, interface: Interface, opening: ProbeExchange, task_id: str) -> ProbeExchange:
        """Returns `opening`, or the first later read of its task that shows a settled state, or the last in time."""
        done = opening
        for _ in range(ceil(self._timeout_s / POLL_S)):
            if done.problem or done.settled:
                break
            await asyncio.sleep(POLL_S)
            done = await self.get(interface, task_id, opening.activation)
        return done

    async def exchange(
        self,
        interface: Interface,
        operation: Operation,
        activation: Activation,
        message: Any,
        listener: Listener = lambda event: None,
    ) -> ProbeExchange:
        """Send the protobuf `message` and read the answer; calls `listener` with each event as it arrives.

        Never raises for a failure of the agent: the exchange's `error` has it. Raises ImportError for gRPC without
        grpcio.
        """
        message.tenant = interface.tenant
        headers = interface.headers(activation)
        shown = tuple((name.lower(), value) for name, value in headers.items())
        body = json.dumps(MessageToDict(message))
        seen = _Transferred(ProbeRequest("gRPC", f"{interface.url}/{RPC_METHODS[operation][0]}", shown, body))
        _seen.set(seen)
        events: list[Event] = []
        error: CaptureError | None = None
        now = asyncio.get_running_loop().time
        latest, closing = now() + self._timeout_s, False
        answer = self._events(interface, operation, message, headers)
        try:
            async with asyncio.timeout_at(latest) as limit, aclosing(answer):
                with mapped_errors(interface.url):
                    async for event in answer:
                        events.append(self._masked(with_whole_numbers(event)))
                        listener(event)
                        if len(events) > MAX_EVENTS:
                            raise AgentError(f"the stream exceeds {MAX_EVENTS} events")
                        if is_settled(event) and operation in STREAMING:
                            if "task" in event:
                                break
                            closing = True
                        if closing:
                            limit.reschedule(min(now() + CLOSING_GRACE_S, latest))
        except TimeoutError:
            error = None if closing else AgentUnreachableError(f"no answer within {self._timeout_s:g} s")
        except CaptureError as failure:
            error = type(failure)(self._mask(str(failure)))
            if seen.status == 200 and is_web_page(dict(seen.headers)):
                said = f"{seen.request.url} answered HTTP 200: a web page; is that the agent's URL?"
                error = AgentUnreachableError(said)
        if error is None and operation is not Operation.LIST and not all(events or [None]):
            error = AgentError("an answer with neither a task, a message nor an update")
        answered = tuple((name, self._mask(value)) for name, value in seen.headers)
        return ProbeExchange(operation, activation, seen.request, seen.status, answered, tuple(events), error)

    async def _events(
        self, interface: Interface, operation: Operation, message: Any, headers: dict[str, str]
    ) -> AsyncGenerator[Event, None]:
        """What a2a-sdk reads in the answer. In a stream, the events as they arrive."""
        if interface.binding == "GRPC":  # over HTTP they are headers of the HTTP client
            headers = {**{name: value for name, value in self._headers.items() if name.lower() != HOST}, **headers}
        elif not interface.legacy:
            headers = {**headers, "A2A-Version": interface.version}
        context = ClientCallContext(service_parameters=headers)
        answer = getattr(self._transport(interface), _METHODS[operation])(message, context=context)
        if operation in STREAMING:
            async with aclosing(answer):
                async for event in answer:
                    yield MessageToDict(event)
            return
        content = MessageToDict(await answer)
        if operation is Operation.LIST:
            for task in content.get("tasks", ()):
                yield {"task": task}
        else:
            yield {"task": content} if operation is Operation.GET and content else content

    def _transport(self, interface: Interface) -> Any:
        key = (interface.binding, interface.legacy, interface.url)
        if key not in self._transports:
            if interface.binding == "GRPC":
                named = AgentInterface(url=interface.url, protocol_version=interface.version)
                self._transports[key] = self._connection.grpc_transport(named, None)
            else:
                self._transports[key] = _TRANSPORTS[key[:2]](self._http, None, interface.url, is_shared_httpx=True)
        return self._transports[key]

    def _connected(self, url: str) -> AgentConnection:
        """What connects over gRPC, with TLS if `url` has it."""
        return AgentConnection(url, self._headers, self._tls, CONNECT_TIMEOUT_S, max_message_bytes=MAX_BODY_BYTES)

    # ── credentials ─────────────────────────────────────────────────────────────────────────────────────

    def _masked(self, content: Any) -> Any:
        """JSON with `***` in place of every credential."""
        return json.loads(self._mask(json.dumps(content))) if self._credentials else content

    def _mask(self, text: str) -> str:
        """The same for text, which may end within one: errors repeat the beginning of an answer."""
        for credential in self._credentials:
            text = text.replace(credential, "***")
            end = text.rstrip("'\"")
            for length in range(len(credential) - 1, LEAST_LENGTH - 1, -1):
                if end.endswith(credential[:length]):
                    text = f"{end[:-length]}***{text[len(end) :]}"
                    break
        return text


def _credentials_in(header_values: Any) -> list[str]:
    """What to mask, the longest first: each value and each of its words except the scheme, also escaped for JSON."""
    texts = {text for value in header_values for text in (value, *value.split())}
    long = {text for text in texts if len(text) >= LEAST_LENGTH and text.lower() not in ("bearer", "digest")}
    return sorted(long | {json.dumps(text)[1:-1] for text in long}, key=len, reverse=True)


def offered_interfaces(card: AgentCard) -> tuple[list[Interface], list[NotChecked]]:
    """The interfaces that can be checked, in the card's order without duplicates, and the others with a reason."""
    declared = card.capabilities.extensions
    required = tuple(each.uri for each in declared if each.required and not is_capture_uri(each.uri))
    checked: dict[Interface, None] = {}
    left: dict[NotChecked, None] = {}
    for each in card.supported_interfaces:
        binding, version = each.protocol_binding.upper(), each.protocol_version or "1.0"
        name, short = f"{binding or 'unnamed binding'} {version} {each.url}", ".".join(version.split(".")[:2])
        if binding not in ("JSONRPC", "HTTP+JSON", "GRPC"):
            left[NotChecked(name, "the binding is not JSONRPC, HTTP+JSON or GRPC")] = None
        elif short not in ("1.0", "0.3"):
            left[NotChecked(name, "the protocol version is neither 1.0 nor 0.3")] = None
        elif binding == "GRPC" and find_spec("grpc") is None:
            left[NotChecked(name, GRPC_MISSING)] = None
        else:
            checked[Interface(binding, short, each.url, each.tenant, required)] = None
    return list(checked), list(left)
