"""Keeps the notifications of one agent for the wire of their turns."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..capture.failures import log_failure
from ..clock import CLOCK
from ..net.http_client import RequestHead
from ..push.listener import NotificationRecord
from ..relay.wire_log import WireLog


class NotificationWire:
    """Keeps the notifications of one agent for the wire of their turns."""

    def __init__(self, log: WireLog, push_url: str) -> None:
        self._log = log
        self._path = f"{urlsplit(push_url).path}/***".encode()  # the rest is a secret

    def keep(self, record: NotificationRecord) -> None:
        """Keep a notification; never raises."""
        try:
            if record.task_id:
                self._keep(record)
        except Exception as error:  # noqa: BLE001  # capture's errors end here
            log_failure(error)

    def _keep(self, record: NotificationRecord) -> None:
        head = RequestHead(record.method.encode(), self._path, record.headers)
        wire = self._log.begin(record.arrived_at, head, record.body)
        if wire is None:
            return
        wire.is_notification, wire.named_task = True, record.task_id
        if record.answer is not None:
            wire.status, wire.headers, wire.response_at = record.answer.status, record.answer.headers, CLOCK.now()
            wire.part(record.answer.body, CLOCK.now())
        wire.end(CLOCK.now(), record.problem, b"")
