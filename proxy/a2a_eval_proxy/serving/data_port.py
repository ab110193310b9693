"""The data port of one process: relays requests to the agent and captures turns."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..capture.forwarding import ForwardingBook
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..errors import GrpcMissingError
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
from ..net.http_client import RequestHead
from ..net.http_server import Address, HttpServer, reachable
from ..net.negotiated_connection import NegotiatedConnection
from ..net.ports import Ports
from ..net.tls import HTTP, HTTP_1, HTTP_2, ServerTls, TlsFiles
from ..privacy.policy import Privacy
from ..protocol import error_bodies
from ..protocol.agent_card import grpc_address
from ..protocol.operations import Binding
from ..push.capture import NotificationCapture, NotifiedTasks
from ..push.listener import NotificationRecord, PushListener
from ..push.registry import WebhookRegistry
from ..push.relay import PushRelay
from ..relay.client_request import RelayContext
from ..relay.forwarder import Forwarder
from ..relay.negotiation import Negotiation
from ..relay.opted_in_tasks import Callers, OptedInTasks
from ..relay.upstream import Upstream
from ..relay.wire_json import exchange_json
from ..relay.wire_log import MAX_AGE_S, WireExchange, WireLog
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..transcode import card_of

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry
    from ..transcode.connection import TranscodingClient

logger = logging.getLogger(__name__)

_EXPIRE_EVERY_S = 0.5

_MAX_REFUSED_BYTES = 1_000_000
"""Of a request that is refused, which is read for its JSON-RPC id."""


class DataPort:
    """Where clients connect: `open` opens it, for the time of its stack."""

    def __init__(
        self,
        settings: Settings,
        privacy: Privacy,
        files: FileWatch,
        metrics: Metrics,
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
        self._push_address = push
        self._shared = shared
        self._on_problems = on_problems
        self._opted_in = opted_in
        self._callers = callers
        self._settings = settings
        self._files = files
        self._metrics = metrics
        self._upstream = Upstream(settings, files)
        self.negotiation = Negotiation(
            settings.negotiate,
            card_of(settings, self._upstream),
            grpc_address=lambda card: grpc_address(card, settings.upstream, settings.grpc),
        )
        self._book = book
        notifications = NotificationCapture(book, notified, CLOCK.now)
        self._push = None
        if webhooks is not None:
            self._push = PushRelay(
                webhooks,
                notifications,
                push_url=settings.push_url or "",
                targets=settings.push_allow,
                retries=settings.push_retry,
                max_body_bytes=settings.max_body_bytes,
                check_every_s=settings.turn_timeouts.look_for_ended_webhooks_s,
            )
        days = settings.retain_days
        max_age_s = MAX_AGE_S if days is None else min(MAX_AGE_S, days * 86_400)
        self._wire_log = WireLog(share(32, settings.processes), max_age_s) if privacy.covers_texts else None
        self._tls = self._server_tls("tls", "tls_client_ca", "TLS for clients", HTTP)
        self._push_tls = self._server_tls("push_tls", "", "TLS for notifications")
        self._grpc = None
        if settings.grpc is not None:
            self._grpc = GrpcPort(settings, files)
            self._grpc_tls = self._server_tls("tls", "tls_client_ca", "TLS for clients over gRPC", HTTP_2)
        self._transcoding = None
        if settings.transcode:
            self._transcoding = self._upstream.http = _transcoding_client()(settings, files)
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

    async def open(self, stack: AsyncExitStack, requests: RequestTelemetry | None) -> None:
        """Listen. Raises ListenError."""
        settings, loop = self._settings, asyncio.get_running_loop()
        if self._transcoding is not None:
            stack.push_async_callback(self._transcoding.disconnect)
        stack.callback(self._upstream.http.close)
        stack.push_async_callback(self.negotiation.close)
        self._ports = Ports(stack, self._on_problems)
        if self._push is not None:
            await self._open_push(stack, self._push)
        self.negotiation.refresh(loop.time())
        stack.callback(loop.create_task(self._expire()).cancel)
        self._files.start()
        stack.push_async_callback(self._files.close)
        forwarder = Forwarder(
            settings,
            self._upstream,
            self._book,
            self.negotiation,
            self._metrics,
            requests,
            self._opted_in,
            self._callers,
            self._wire_log,
            self._push,
        )
        grpc = None
        if self._grpc is not None:
            grpc = self._grpc_server = await self._open_grpc(stack, self._grpc, forwarder.context, requests)
            self.grpc_address = grpc.address
            forwarder.context.cards.grpc_port = int(grpc.address.rpartition(":")[2])
        names = HostNames(settings.host_names)
        data: Any = BrowserGuard(forwarder, names) if settings.adds_credentials else forwarder
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
            forwarder.context.cards.url = reachable(self.url)
            stack.callback(grpc.close)  # both ports wait for open responses at the same time

    async def _open_grpc(
        self, stack: AsyncExitStack, port: GrpcPort, relay: RelayContext, requests: RequestTelemetry | None
    ) -> HttpServer:
        stack.callback(port.agent.close)
        limits = self._limits()
        port.begin(relay, requests, limits)
        return await self._ports.open(
            lambda: HttpServer(
                port,
                self._settings.grpc or "",
                shutdown_timeout_s=self._settings.shutdown_timeout,
                limits=limits,
                tls=self._grpc_tls,
                shared=self._shared,
                speaks=Http2Connection,
            ),
            "--grpc",
        )

    async def _open_push(self, stack: AsyncExitStack, relay: PushRelay) -> None:
        """Relay webhooks, and receive the agent's notifications if there is an address for them."""
        settings, address = self._settings, self._push_address
        stack.push_async_callback(relay.registry.close)
        stack.callback(asyncio.get_running_loop().create_task(relay.watch()).cancel)
        if address is None:
            return
        listener = PushListener(relay, settings.max_body_bytes, self._keep_notification)
        stack.callback(listener.close)
        if relay.retry is not None:
            stack.push_async_callback(relay.retry.close)
            stack.callback(asyncio.get_running_loop().create_task(relay.retry.watch()).cancel)
        server = await self._ports.open(
            lambda: HttpServer(
                listener,
                address,
                shutdown_timeout_s=settings.shutdown_timeout,
                limits=self._limits(),
                tls=self._push_tls,
            ),
            "--push-listen",
        )
        logger.info("webhooks: notifications of the agent are received on %s", server.url)

    def _keep_notification(self, record: NotificationRecord) -> None:
        """Keep a notification for the wire of its turn."""
        log = self._wire_log
        if log is None or not record.task_id or not log.admits(record.arrived_at):
            return
        path = f"{urlsplit(self._settings.push_url or '').path}/***"  # the rest is a secret
        head = RequestHead(record.method.encode(), path.encode(), record.headers)
        wire = WireExchange(log, record.arrived_at, head, b"")
        wire.is_notification, wire.named_task = True, record.task_id
        wire.keep(record.body, complete=True)
        if record.answer is not None:
            wire.status, wire.headers, wire.response_at = record.answer.status, record.answer.headers, CLOCK.now()
            wire.part(record.answer.body, CLOCK.now())
        wire.end(CLOCK.now(), record.problem, b"")

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
            broken_limits=self._metrics.client_errors,
        )

    def _server_tls(
        self, setting: str, ca_setting: str, name: str, alpn: tuple[str, ...] = HTTP_1
    ) -> ssl.SSLContext | None:
        """What a port is opened with, from the settings of `TlsFiles`; None: plain text."""
        files = TlsFiles.of(self._settings, setting, ca_setting=ca_setting, alpn=alpn)
        if files.cert is None:
            return None
        tls = ServerTls(files)
        self._files.add(name, files.paths, tls.load)
        return tls.context

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
        from ..transcode.connection import TranscodingClient
    except ImportError as error:
        raise GrpcMissingError("transcode: --transcode needs grpcio: pip install 'a2a-eval-proxy[grpc]'") from error
    return TranscodingClient
