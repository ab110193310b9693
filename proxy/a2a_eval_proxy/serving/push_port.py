"""Relays the webhooks of one agent, and keeps its notifications for the wire of their turns."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from ..capture.failures import log_failure
from ..clock import CLOCK
from ..net.http_client import RequestHead
from ..push.capture import NotificationCapture
from ..push.listener import NotificationRecord, PushListener
from ..push.registry import WebhookRegistry
from ..push.relay import PushRelay
from ..relay.wire_log import WireExchange, WireLog
from ..settings.settings import TrafficSettings


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
