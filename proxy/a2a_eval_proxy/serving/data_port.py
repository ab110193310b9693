"""The data port of one process: relays requests to the agent and captures turns."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from ..capture.forwarding import ForwardingBook
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..errors import GrpcMissingError
from ..grpc_relay.agent import GrpcAgent
from ..grpc_relay.server import GrpcPort
from ..memory import share
from ..net.browser_guard import BrowserGuard, HostNames
from ..net.client_limits import FILES_WHEN_TRANSCODING, ClientLimits, connections_possible
from ..net.file_watcher import FileWatch
from ..net.grpc_wire import GrpcStatus, ending, only_trailers
from ..net.header_compression import Fields
from ..net.http2_connection import AsyncStream
from ..net.http2_exchange import HttpStreams
from ..net.http2_server import Ends, Http2Connection, StreamHandler
from ..net.http2_streams import Headers
from ..net.http_server import Address, HttpServer, reachable
from ..net.negotiated_connection import NegotiatedConnection
from ..net.ports import Ports
from ..net.tls import HTTP, HTTP_2, TlsFiles, server_tls
from ..privacy.policy import Privacy
from ..protocol import error_bodies
from ..protocol.agent_card import grpc_address
from ..protocol.operations import Binding
from ..push.capture import NotificationCapture, NotifiedTasks
from ..push.registry import WebhookRegistry
from ..relay.body_memory import BodyMemory
from ..relay.card_relay import CardRelay
from ..relay.client_request import Reachability, RelayContext
from ..relay.forwarder import Forwarder
from ..relay.negotiation import Negotiation
from ..relay.opted_in_tasks import Callers, OptedInTasks
from ..relay.upstream import Upstream
from ..relay.wire_json import exchange_json
from ..relay.wire_log import MAX_AGE_S, WireLog
from ..settings.settings import TrafficSettings
from ..telemetry.counters import Metrics
from ..transcode import card_of
from .push_port import PushPort

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry
    from ..transcode.application import TranscodingClient

_EXPIRE_EVERY_S = 0.5

_MAX_REFUSED_BYTES = 1_000_000
"""Of a request that is refused, which is read for its JSON-RPC id."""


class DataPort:
    """Where clients connect: `open` opens it, for the time of its stack."""

    def __init__(
        self,
        settings: TrafficSettings,
        privacy: Privacy,
        names: HostNames,
        files: FileWatch,
        metrics: Metrics,
        requests: RequestTelemetry | None,
        book: TurnBook | ForwardingBook,
        notified: NotifiedTasks,
        push: Address | None,
        webhooks: WebhookRegistry | None,
        *,
        opted_in: OptedInTasks | None = None,
        callers: Callers | None = None,
        shared: bool = False,
        on_problems: Callable[[list[str]], None] | None = None,
    ) -> None:
        """`book` receives what is captured, `notified` the tasks of which notifications may come. `push`: where they
        are received, if in this process. `webhooks` None: they are not relayed. `shared`: other processes listen on the
        same address, and share `opted_in` and `callers`. `on_problems`: see `Ports`.

        Reads the files of TLS. Raises ConfigError, or GrpcMissingError.
        """
        self.files = files
        self.metrics = metrics
        self._settings = settings
        self._names = names
        self._requests = requests
        self._shared = shared
        self._on_problems = on_problems
        self._book = book
        days = settings.retain_days
        max_age_s = MAX_AGE_S if days is None else min(MAX_AGE_S, days * 86_400)
        self._wire_log = WireLog(share(32, settings.processes), max_age_s) if privacy.covers_texts else None
        self._push = None
        if webhooks is not None:
            notifications = NotificationCapture(book, notified, CLOCK.now)
            self._push = PushPort(settings, files, webhooks, notifications, push, self._wire_log)
        upstream = Upstream(settings, files)
        self._transcoding = None
        if settings.transcode:
            self._transcoding = upstream.http = _transcoding_client()(settings, files)
        self._negotiation = Negotiation(
            settings.negotiate,
            card_of(settings, upstream),
            grpc_address=lambda card: grpc_address(card, settings.upstream, settings.grpc),
        )
        self._relay = RelayContext(
            settings,
            upstream,
            book,
            self._negotiation,
            metrics,
            cards=CardRelay(
                upstream,
                self._negotiation,
                public_url_is_fixed=settings.public_url is not None,
                refuses_push=settings.push_mode == "refuse",
            ),
            opted_in=opted_in or OptedInTasks(),
            callers=callers or Callers(),
            bodies=BodyMemory(max(share(8, settings.processes), 2 * settings.max_body_bytes)),
            reachability=Reachability(settings.upstream),
            wire_log=self._wire_log,
            push=None if self._push is None else self._push.relay,
            loop=asyncio.get_running_loop(),
        )
        self._tls = self._client_tls("TLS for clients", HTTP)
        self._grpc = None
        if settings.grpc is not None:
            self._grpc = GrpcPort(self._relay, GrpcAgent(settings, files), requests, self._limits())
            self._grpc_tls = self._client_tls("TLS for clients over gRPC", HTTP_2)
        self._server: HttpServer
        self._grpc_server: HttpServer | None = None
        self._ports: Ports
        self.grpc_address: str | None = None
        """HOST:PORT where clients connect that speak gRPC, once it is open."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self._server.url

    def retire(self) -> None:
        """Keep serving, and ask clients to connect again."""
        self._server.retire()
        if self._grpc_server is not None:
            self._grpc_server.retire()

    def problems(self) -> list[str]:
        return self._ports.problems()

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        """The exchanges of a turn in memory (`relay.wire_json`); none where rules cannot be applied to them."""
        log = self._wire_log
        return [] if log is None else [exchange_json(one) for one in log.of_turn(turn_id, tasks, began, ended)]

    async def open(self, stack: AsyncExitStack) -> None:
        """Listen. Raises ListenError."""
        settings, loop, cards = self._settings, asyncio.get_running_loop(), self._relay.cards
        if self._transcoding is not None:
            stack.push_async_callback(self._transcoding.disconnect)
        stack.callback(self._relay.upstream.http.close)
        stack.push_async_callback(self._negotiation.close)
        self._ports = Ports(stack, self._on_problems)
        if self._push is not None:
            await self._push.open(self._ports, self._limits())
        self._negotiation.refresh(loop.time())
        stack.callback(loop.create_task(self._expire()).cancel)
        grpc = None
        if self._grpc is not None:
            grpc = self._grpc_server = await self._open_grpc(stack, self._grpc)
            self.grpc_address = grpc.address
            cards.grpc_port = int(grpc.address.rpartition(":")[2])
        data: Any = Forwarder(self._relay, self._requests)
        if settings.adds_credentials:
            data = BrowserGuard(data, self._names)
        if settings.grpc_upstream and not settings.transcode:
            data = _HttpRefusal(settings.upstream, self.grpc_address or "")
        limits = self._limits()
        streams = HttpStreams(data, self._grpc or _GrpcRefusal(), limits)
        self._server = await self._ports.open(
            lambda: HttpServer(
                data,
                settings.listen,
                shutdown_timeout_s=settings.shutdown_timeout,
                limits=limits,
                tls=self._tls,
                shared=self._shared,
                speaks=partial(NegotiatedConnection, streams),
            ),
            "--listen",
        )
        stack.callback(self._ports.give_up)
        if grpc is not None:
            cards.url = reachable(self.url)
            stack.callback(grpc.close)  # both ports wait for open responses at the same time

    async def _open_grpc(self, stack: AsyncExitStack, port: GrpcPort) -> HttpServer:
        stack.callback(port.agent.close)
        return await self._ports.open(
            lambda: HttpServer(
                port,
                self._settings.grpc or "",
                shutdown_timeout_s=self._settings.shutdown_timeout,
                limits=port.limits,
                tls=self._grpc_tls,
                shared=self._shared,
                speaks=Http2Connection,
            ),
            "--grpc",
        )

    def _limits(self) -> ClientLimits:
        settings = self._settings
        return ClientLimits(
            header_timeout_s=settings.client_header_timeout,
            body_timeout_s=settings.client_body_timeout,
            send_timeout_s=settings.client_send_timeout,
            max_header_bytes=settings.max_header_bytes,
            max_connections=connections_possible(
                settings.max_client_connections, *([FILES_WHEN_TRANSCODING] if settings.transcode else [])
            ),
            broken_limits=self.metrics.client_errors,
        )

    def _client_tls(self, name: str, alpn: tuple[str, ...]) -> ssl.SSLContext | None:
        return server_tls(TlsFiles.of(self._settings, "tls", ca_setting="tls_client_ca", alpn=alpn), self.files, name)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_EVERY_S)
            CLOCK.align(busy=bool(self._book.open_turns))
            self._book.expire(CLOCK.now())
            if self._wire_log is not None:
                self._wire_log.expire(CLOCK.now())


class _GrpcRefusal(StreamHandler):
    """Answers calls of gRPC where none are relayed."""

    async def answer(self, stream: AsyncStream, head: Headers, ends: Ends) -> None:
        message = "the proxy does not relay gRPC; start it with --grpc HOST:PORT, which is the port for it"
        stream.send_headers(self.refusal(head, message), end=True)

    def refusal(self, head: Headers, message: str) -> Fields:
        return only_trailers(ending(GrpcStatus.UNIMPLEMENTED, message))


class _HttpRefusal:
    """Answers HTTP requests for an agent that has only gRPC: an ASGI application."""

    def __init__(self, upstream: str, grpc_address: str) -> None:
        """`grpc_address` is HOST:PORT of the proxy's gRPC port."""
        self._message = (
            f"the agent at {upstream} has no HTTP interface; use gRPC, at {grpc_address} of the proxy, or start the "
            "proxy with --transcode"
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", scope["method"] == "POST"
        while more and len(body) < _MAX_REFUSED_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        binding = Binding.JSONRPC if scope["method"] == "POST" else Binding.HTTP_JSON
        status, headers, content = error_bodies.error(502, "NO_HTTP_INTERFACE", self._message, binding, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


def _transcoding_client() -> type[TranscodingClient]:
    """Imports grpcio, an optional dependency. Raises GrpcMissingError."""
    try:
        from ..transcode.application import TranscodingClient
    except ImportError as error:
        raise GrpcMissingError("transcode: --transcode needs grpcio: pip install 'a2a-eval-proxy[grpc]'") from error
    return TranscodingClient
