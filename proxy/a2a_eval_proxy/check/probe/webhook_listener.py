"""Where the agent sends the notifications of a check."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from ...errors import ListenError
from ...net.http_server import HttpServer
from ...protocol.webhook_targets import is_public
from ...settings.parsing import is_loopback
from .record import CheckWebhook, NotificationSeen, ProbeRequest

MAX_NOTIFICATIONS = 1000
"""Maximum number kept of one webhook ..."""
MAX_BODY_BYTES = 1024 * 1024
"""... each up to this size. Others are answered with 413."""


@dataclass(frozen=True, slots=True)
class PushOptions:
    """How to check push notifications.

    `listen` is the address to receive them on, `url` where the agent reaches it; without a `url` only agents on this
    machine are checked. `wait_s` is the maximum time to wait for a notification after the task's end, `retry_wait_s`
    for one to be repeated.
    """

    listen: str = "127.0.0.1:0"
    url: str | None = None
    wait_s: float = 5.0
    retry_wait_s: float = 5.0


@dataclass(slots=True)
class ListeningWebhook:
    """A webhook and what has arrived there. The first notification is answered with `first_status`."""

    webhook: CheckWebhook
    first_status: int = 200
    arrived: list[NotificationSeen] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, request: ProbeRequest) -> int:
        """Keep a notification; returns the status to answer with."""
        if len(self.arrived) >= MAX_NOTIFICATIONS:
            return 413
        status = 200 if self.arrived else self.first_status
        self.arrived.append(NotificationSeen(request, status))
        self._news.set()
        return status

    async def until(self, enough: Callable[[list[NotificationSeen]], bool], timeout_s: float) -> bool:
        """Wait until the notifications are `enough`; returns whether they are after `timeout_s` seconds."""
        try:
            async with asyncio.timeout(timeout_s):
                while not enough(self.arrived):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return enough(self.arrived)
        return True


class WebhookListener:
    """The server of the webhooks. Use as async context manager. Raises ListenError if it cannot listen."""

    def __init__(self, options: PushOptions) -> None:
        self._webhooks: dict[str, ListeningWebhook] = {}
        try:
            self._server = HttpServer(self, options.listen, shutdown_timeout_s=1)
        except ListenError as error:
            raise ListenError(error.errno, f"{error.strerror}; choose another address with --push-listen") from error
        self._url = (options.url or self._server.url).rstrip("/")

    @property
    def is_private(self) -> bool:
        """Whether agents may refuse the address (A2A 1.0, section 13.2)."""
        host = urlsplit(self._url).hostname or ""
        try:
            return not is_public(ip_address(host))
        except ValueError:
            return host == "localhost"

    async def __aenter__(self) -> WebhookListener:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    def new(self, first_status: int = 200) -> ListeningWebhook:
        """A webhook that nothing else has."""
        key = secrets.token_urlsafe(12)
        webhook = CheckWebhook(f"{self._url}/{key}", secrets.token_urlsafe(12), secrets.token_urlsafe(12))
        self._webhooks[key] = ListeningWebhook(webhook, first_status)
        return self._webhooks[key]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        body, more = b"", True
        while more and len(body) <= MAX_BODY_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        listening = self._webhooks.get(scope["path"].rpartition("/")[2])
        status = 404
        if listening is not None:
            headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
            request = ProbeRequest(scope["method"], listening.webhook.url, headers, body)
            status = 413 if len(body) > MAX_BODY_BYTES else listening.take(request)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


def is_local(url: str) -> bool:
    """Whether the URL's host is this machine."""
    return is_loopback(f"{urlsplit(url).hostname or ''}:80")
