"""Connects `CaptureClient` to an agent: its card, an interface in the card, and the client of a2a-sdk for it.

Events are read from the JSON of the agent, not from the SDK's protobuf messages: in those, every number is a double
and the keys of objects have lost their order; and one that protobuf does not accept would end the turn, where others
(the proxy among them) read the rest. So the SDK gets a stand-in for each event.
"""

from __future__ import annotations

import io
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.errors import A2AClientError
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.client.transports.base import ClientTransport
from a2a.compat.v0_3.versions import is_legacy_version
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, GetExtendedAgentCardRequest, StreamResponse, Task
from a2a.utils.errors import A2AError, ExtensionSupportRequiredError
from google.protobuf.json_format import Error as ProtoJsonError
from google.protobuf.json_format import MessageToDict, SerializeToJsonError

from .card_search import CardAnswer, card_urls, find_card
from .client_tls import HOST, SECURE_SCHEMES, grpc_channel
from .environment_proxies import EnvironmentTransport, UnusableProxyError
from .errors import (
    AgentError,
    AgentUnreachableError,
    CaptureError,
    ConfigurationError,
    connection_problem,
    is_web_page,
    not_of_the_agent,
    response_problem,
    via_proxy,
)
from .json_values import read_json
from .spec import EXTENSIONS_HEADER, KNOWN_VERSIONS
from .wire import BINDINGS, received_event, rpc_error, unknown_fields, unread_event

_received: ContextVar[Any] = ContextVar("received")
"""The JSON of the event, or of the whole response, that this task received last; a ValueError for what is no JSON."""

_TASK = {"id": "-", "contextId": "-"}
_STAND_IN = {
    "task": {**_TASK, "status": {"state": "TASK_STATE_WORKING"}},
    **_TASK,
    "kind": "task",
    "status": {"state": "working"},
}
"""What the SDK accepts as an answer to any request, in each version of A2A."""


class EventClient(httpx.AsyncClient):
    """Keeps what it receives for `AgentConnection.event`: whole responses when they are read, streams event by event.

    `in_envelope`: whether answers are JSON-RPC. As long as it is None, responses are no events, and not kept.
    """

    in_envelope: bool | None = None

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        response = await super().send(request, stream=stream, **options)
        if self.in_envelope is None or not response.is_success:
            return response
        if is_web_page(response.headers):
            await response.aclose()
            said = f"answered HTTP {response.status_code} with a web page"
            raise AgentUnreachableError(f"{request.url} {said}; is that the agent's URL?")
        if stream:
            return _EventStream(response, self.in_envelope)
        return httpx.Response(200, text=_kept(response.text, self.in_envelope), request=request)


def _kept(text: str, in_envelope: bool) -> str:
    """Keep an event for `AgentConnection.event`; returns what the SDK reads in its place: an error as it is."""
    try:
        payload = read_json(text)
    except ValueError as error:
        payload = error
    except RecursionError:
        payload = ValueError("nested too deeply")
    _received.set(payload)
    if not in_envelope:
        return json.dumps(_STAND_IN)
    return text if rpc_error(payload) else json.dumps({"jsonrpc": "2.0", "id": 0, "result": _STAND_IN})


class _EventStream(httpx.Response):
    def __init__(self, response: httpx.Response, in_envelope: bool) -> None:
        super().__init__(
            response.status_code,
            headers=response.headers,
            stream=response.stream,
            request=response.request,
            extensions=response.extensions,
        )
        self._in_envelope = in_envelope

    async def aread(self) -> bytes:
        await super().aread()
        return _kept(self.text, self._in_envelope).encode()

    async def aiter_lines(self) -> AsyncIterator[str]:
        """Lines as server-sent events have them: httpx also splits at U+2028 and others, which JSON may hold."""
        newlines = io.IncrementalNewlineDecoder(None, translate=True)
        unfinished: list[str] = []
        data: list[str] = []
        async for chunk in self.aiter_text():
            text = newlines.decode(chunk)
            if "\n" not in text:
                unfinished.append(text)
                continue
            *lines, rest = ("".join(unfinished) + text).split("\n")
            unfinished = [rest]
            for line in lines:
                if line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
                elif not line and any(data):
                    yield "data: " + _kept("\n".join(data), self._in_envelope)
                    yield ""
                    data.clear()


CARD_TIMEOUT_S = 30.0
"""Maximum time for the card, if a turn may take as long."""

_KEPT_IDLE_S = 3.0
"""Time for which an idle connection is used again. Many agents run on uvicorn, which closes it after 5 s: a request
that meets the closing is lost."""

_GRPC = "GRPC"
_GRPC_MISSING = "gRPC needs grpcio: pip install 'a2a-tool-capture[grpc]'"


class AgentConnection:
    """Connections to the agent at `url`, over HTTP and gRPC. `headers` are sent with every request."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None,
        connect_timeout_s: float,
        card_timeout_s: float = CARD_TIMEOUT_S,
        *,
        trust_env: bool = True,
        max_message_bytes: int = -1,
    ) -> None:
        """`max_message_bytes`: of an answer over gRPC; -1 for no limit."""
        self._url = url
        self._headers = headers
        self._tls = tls
        self._connect_timeout_s = connect_timeout_s
        self._card_timeout_s = card_timeout_s
        self._max_message_bytes = max_message_bytes
        self._channels: list[Any] = []
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEPT_IDLE_S)
        transport = EnvironmentTransport if trust_env else httpx.AsyncHTTPTransport
        self._http = EventClient(
            headers=headers,
            timeout=httpx.Timeout(None, connect=connect_timeout_s),
            transport=transport(verify=tls or True, limits=limits),
        )

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()
        await self._http.aclose()

    async def card_and_interface(self, card_path: str | None, binding: str | None) -> tuple[AgentCard, AgentInterface]:
        """Returns the agent's card and the interface to use. `card_path` None: wherever `card_search` finds it;
        `binding` None: any binding that this client speaks.

        Raises AgentUnreachableError or AgentError if the card cannot be fetched, ConfigurationError if it has no
        interface that can be used.
        """
        if self._url.startswith(("grpc://", "grpcs://")):
            return await self._card_over_grpc()
        urls = card_urls(self._url) if card_path is None else [f"{self._url}/{card_path.lstrip('/')}"]
        with mapped_errors(self._url, first=True):
            found = await find_card(urls, self._fetched)
            card = parse_agent_card(found.card)
        return card, _choose(card, binding, self._url)

    async def _fetched(self, url: str) -> CardAnswer:
        response = await self._http.get(url, timeout=self._card_timeout_s)
        return CardAnswer(response.status_code, response.headers, response.content)

    def client(self, card: AgentCard) -> Client:
        """The client of a2a-sdk for the one interface of `card`."""
        http_bindings = [binding for binding in BINDINGS if binding != _GRPC]
        config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=http_bindings)
        factory = ClientFactory(config)
        # The SDK's own producer forgets 0.3 where modules were imported in another order than it expects.
        factory.register(_GRPC, lambda card, *_: self.grpc_transport(card.supported_interfaces[0], card))
        config.supported_protocol_bindings.append(_GRPC)
        self._http.in_envelope = card.supported_interfaces[0].protocol_binding == "JSONRPC"
        return factory.create(card)

    def context(self, interface: AgentInterface, traceparent: str = "", tracestate: str = "") -> ClientCallContext:
        """Headers of one request. For A2A 0.3 the SDK also sends the extensions under the older header name."""
        own = [value for name, value in self._headers.items() if name.lower() == EXTENSIONS_HEADER.lower()]
        asked = with_a2a_extensions([*own, *(version.uri for version in KNOWN_VERSIONS)])
        parameters = ServiceParametersFactory.create([asked])
        if interface.protocol_binding == _GRPC:  # over HTTP they are headers of the HTTP client
            apart = (EXTENSIONS_HEADER.lower(), HOST)
            others = {name: value for name, value in self._headers.items() if name.lower() not in apart}
            parameters = {**others, **parameters}
        if traceparent:
            parameters = {**parameters, "traceparent": traceparent}
        if tracestate:
            parameters = {**parameters, "tracestate": tracestate}
        return ClientCallContext(service_parameters=parameters)

    def event(self, message: StreamResponse | Task, interface: AgentInterface) -> dict[str, Any]:
        """The event that was received as `message`, in A2A 1.0's form: from its JSON, over gRPC from protobuf.

        Raises AgentError for an error, which a stream over HTTP+JSON may have in place of an event.
        """
        in_stream = isinstance(message, StreamResponse)
        if interface.protocol_binding == _GRPC:
            content = MessageToDict(message) or unknown_fields(message.SerializeToString())
            return received_event(content, in_envelope=False, in_stream=in_stream)
        payload = _received.get()
        if (error := rpc_error(payload)) is not None:
            code, why = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, error)
            raise AgentError(f"{interface.url} answered with error {code}: {why}")
        if isinstance(payload, ValueError):
            return unread_event("malformed_response", f"not JSON: {payload}")
        return received_event(payload, in_envelope=interface.protocol_binding == "JSONRPC", in_stream=in_stream)

    # ── gRPC ────────────────────────────────────────────────────────────────────────────────────────────

    def grpc_transport(self, interface: AgentInterface, card: AgentCard | None) -> ClientTransport:
        """A transport of a2a-sdk. Raises ConfigurationError without grpcio."""
        channel = self._channel(interface.url)
        from a2a.client.transports.grpc import GrpcTransport
        from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport

        return (CompatGrpcTransport if is_legacy_version(interface.protocol_version) else GrpcTransport)(channel, card)

    def _channel(self, url: str) -> Any:
        """A grpc.aio.Channel to HOST:PORT, which may have a scheme. Raises ConfigurationError, also without grpcio."""
        options = [
            ("grpc.max_receive_message_length", self._max_message_bytes),
            ("grpc.enable_http_proxy", 0),
            ("grpc.min_reconnect_backoff_ms", round(self._connect_timeout_s * 1000)),  # the time to connect
        ]
        try:
            secure, headers = self._url.startswith(SECURE_SCHEMES), self._headers.items()
            channel = grpc_channel(url, self._tls, options, secure=secure, headers=headers)
        except ImportError:
            raise ConfigurationError(_GRPC_MISSING) from None
        self._channels.append(channel)
        return channel

    async def _card_over_grpc(self) -> tuple[AgentCard, AgentInterface]:
        """The extended card of an agent that has only gRPC; one without content where the agent has none."""
        spoken, target = "", self._url.rpartition("://")[2]
        for version in ("1.0", "0.3"):
            interface = AgentInterface(url=target, protocol_binding=_GRPC, protocol_version=version)
            transport = self.grpc_transport(interface, None)
            try:
                with mapped_errors(self._url, first=True):
                    card = await transport.get_extended_agent_card(
                        GetExtendedAgentCardRequest(), context=self.context(interface)
                    )
                if card is not None:
                    return card, interface
                spoken = spoken or version  # the agent ended the call with OK, and without a card
            except AgentError as error:
                if not spoken and "UNIMPLEMENTED" not in str(error):
                    spoken = version
        capabilities = AgentCapabilities(streaming=True)
        interface.protocol_version = spoken or "1.0"
        return AgentCard(name=self._url, capabilities=capabilities, supported_interfaces=[interface]), interface


def _choose(card: AgentCard, binding: str | None, url: str) -> AgentInterface:
    source = f"the card of {card.name!r} at {url}"
    wanted = BINDINGS if binding is None else (binding,)
    offered = [interface for interface in card.supported_interfaces if interface.protocol_binding in wanted]
    if not offered:
        available = ", ".join(sorted({interface.protocol_binding for interface in card.supported_interfaces}))
        raise ConfigurationError(f"{source} offers {available or 'no interfaces'}; expected {' or '.join(wanted)}")
    has_grpc = find_spec("grpc") is not None
    usable = [interface for interface in offered if interface.protocol_binding != _GRPC or has_grpc]
    if not usable:
        raise ConfigurationError(f"{source} offers GRPC: {_GRPC_MISSING}")
    interface: AgentInterface = min(usable, key=lambda candidate: is_legacy_version(candidate.protocol_version))
    is_grpc = interface.protocol_binding == _GRPC
    if not re.match(r"(?:\w+://)?[^/]+:\d+/?$" if is_grpc else r"https?://[^/]", interface.url):
        raise AgentError(
            f"{source} gives {interface.url!r} as its {interface.protocol_binding} URL; "
            f"expected {'HOST:PORT' if is_grpc else 'an absolute http or https URL'}"
        )
    return interface


@contextmanager
def mapped_errors(url: str, card: AgentCard | None = None, *, first: bool = False) -> Iterator[None]:
    """Raise the SDK's exceptions, including several kinds of parsing errors, as a CaptureError.

    `first`: no request was answered before. `card` says which extensions the agent requires.

    AttributeError: a gRPC call ended with OK and without a message, which the SDK reads as None.
    """
    try:
        yield
    except (
        A2AError,
        httpx.HTTPError,
        httpx.InvalidURL,
        ProtoJsonError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        found = _error_from(error, url, url if first else "", card)
        if (via := via_proxy(error)) and via not in str(found):
            found = type(found)(f"{found} ({via})")
        raise found from error


def _error_from(error: Exception, url: str, first: str, card: AgentCard | None) -> CaptureError:
    if isinstance(error, ExtensionSupportRequiredError):
        offered = card.capabilities.extensions if card else ()
        known = {version.uri for version in KNOWN_VERSIONS}
        missing = ", ".join(one.uri for one in offered if one.required and one.uri not in known) or "URI"
        flag = f"send it with --header '{EXTENSIONS_HEADER}: {missing}'"
        return AgentUnreachableError(f"{url} requires an extension of its clients ({error.message}): {flag}")
    if isinstance(error, A2AError) and not isinstance(error, A2AClientError):
        return AgentError(f"{url} answered with {type(error).__name__}: {error.message}")
    for cause in (error, error.__cause__):
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            answered = response.status_code, response.headers, response.text
            kind = AgentUnreachableError if not_of_the_agent(*answered) else AgentError
            problem = response_problem(*answered, str(response.url))
            return kind(f"{response.url} answered HTTP {response.status_code}: {problem}".rstrip(": "))
        if isinstance(cause, UnusableProxyError):
            return ConfigurationError(str(cause))
        if isinstance(cause, httpx.TimeoutException):
            return AgentUnreachableError(f"{url} did not respond in time ({type(cause).__name__}); does it hang?")
        if callable(getattr(cause, "code", None)):
            return _error_of_call(cause, url, first)
        if isinstance(cause, httpx.RequestError):
            what = "cannot be reached" if isinstance(cause, httpx.ConnectError) else "closed the connection"
            return AgentUnreachableError(f"{url} {what}: {connection_problem(cause, first)}")
    if isinstance(error, A2AClientError):
        if not first:
            return AgentError(f"{url} answered with an error: {error.message}")
        return AgentError(f"{url} answered with no agent card ({error.__cause__ or error}); is it an A2A agent?")
    if isinstance(error, SerializeToJsonError):
        return AgentError(f"{url} answered with what JSON cannot hold: {error}")
    if first:
        return AgentError(f"{url} answered with no agent card ({error}); is it an A2A agent?")
    return AgentError(f"{url} answered with something that is not A2A: {error}")


def _error_of_call(error: Any, url: str, first: str) -> CaptureError:
    """`error` is a grpc.RpcError with a status."""
    status, details = error.code().name, error.details()
    if status == "UNAVAILABLE":
        return AgentUnreachableError(f"{url} cannot be reached: {connection_problem(details or status, first)}")
    if status == "DEADLINE_EXCEEDED":
        return AgentUnreachableError(f"{url} did not respond in time")
    if status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        problem = response_problem(401, {}, details or "")
        return AgentUnreachableError(f"{url} answered with gRPC status {status}: {problem}")
    return AgentError(f"{url} answered with gRPC status {status}: {details}")
