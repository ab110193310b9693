"""The port on which the agents' notifications arrive, and what relays the webhooks that they are for."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from ..capture.failures import log_failure
from ..clock import CLOCK
from ..net.client_limits import ClientLimits
from ..net.file_watcher import FileWatch
from ..net.http_client import RequestHead
from ..net.http_server import HttpServer
from ..net.ports import Ports
from ..net.server_exchange import Application
from ..net.tls import TlsFiles, server_tls
from ..push.capture import NotificationCapture
from ..push.listener import NotificationRecord, PushListener
from ..push.registry import WebhookRegistry
from ..push.relay import PushRelay
from ..relay.wire_log import WireExchange, WireLog
from ..settings.settings import TrafficSettings

logger = logging.getLogger(__name__)


class AgentPush:
    """Relays the webhooks of one agent."""

    def __init__(
        self,
        settings: TrafficSettings,
        webhooks: WebhookRegistry,
        notifications: NotificationCapture,
        wire_log: WireLog | None,
    ) -> None:
        self._wire_log = wire_log
        self.relay = PushRelay(
            webhooks,
            notifications,
            push_url=settings.push_url or "",
            targets=settings.push_allow,
            check_every_s=settings.turn_timeouts.look_for_ended_webhooks_s,
        )
        self.listener = PushListener(self.relay, settings.max_body_bytes, self._keep)

    def open(self, stack: AsyncExitStack) -> None:
        """Relay webhooks and their notifications until the stack ends."""
        relay, loop = self.relay, asyncio.get_running_loop()
        stack.push_async_callback(relay.registry.close)
        stack.callback(loop.create_task(relay.watch()).cancel)
        stack.callback(self.listener.close)

    def _keep(self, record: NotificationRecord) -> None:
        """Keep a notification for the wire of its turn."""
        try:
            if self._wire_log is not None and record.task_id and self._wire_log.admits(record.arrived_at):
                self._keep_in(self._wire_log, record)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)

    def _keep_in(self, log: WireLog, record: NotificationRecord) -> None:
        path = f"{urlsplit(self.relay.push_url).path}/***"  # the rest is a secret
        head = RequestHead(record.method.encode(), path.encode(), record.headers)
        wire = WireExchange(log, record.arrived_at, head)
        wire.is_notification, wire.named_task = True, record.task_id
        wire.keep(record.body, complete=True)
        if record.answer is not None:
            wire.status, wire.headers, wire.response_at = record.answer.status, record.answer.headers, CLOCK.now()
            wire.part(record.answer.body, CLOCK.now())
        wire.end(CLOCK.now(), record.problem, b"")


class PushPort:
    """Where the notifications of all agents arrive."""

    def __init__(self, settings: TrafficSettings, files: FileWatch, address: str) -> None:
        """Reads the files of TLS; raises ConfigError."""
        self._address = address
        self._shutdown_timeout_s = settings.shutdown_timeout
        self._tls = server_tls(TlsFiles.of(settings, "push_tls"), files, "TLS for notifications")

    async def open(self, ports: Ports, limits: ClientLimits, application: Application) -> None:
        """Listen for notifications, which `application` answers. Raises ListenError."""
        server = await ports.open(
            lambda: HttpServer(
                application,
                self._address,
                shutdown_timeout_s=self._shutdown_timeout_s,
                limits=limits,
                tls=self._tls,
            ),
            "--push-listen",
        )
        logger.info("webhooks: notifications of the agent are received on %s", server.url)
