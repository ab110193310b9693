"""Sends notifications to webhooks: to allowed addresses only, within a time limit, and follows no redirect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from functools import cached_property
from ipaddress import ip_address
from ssl import SSLContext
from urllib.parse import urlsplit

from ..net.http_client import HttpClient, RawHeaders, UpstreamError, UpstreamUnreachableError
from ..net.tls import TlsFiles
from ..protocol.headers import response_headers
from ..protocol.webhook_targets import WebhookTargets
from ..threads import BoundedThreads

TIMEOUT_S = 30.0  # the upper end of what A2A 1.0, section 13.2 recommends to agents
BODY_S = 5.0  # how long the body of an answer may take, whose status is what counts
_MAX_ANSWER_BYTES = 64 * 1024
_LOCATION = frozenset({b"location"})


class WebhookAnswer:
    """What a client answered to a notification."""

    def __init__(self, status: int, headers: RawHeaders = (), body: bytes = b"") -> None:  # type: ignore[assignment]
        self.status = status
        self.headers = list(headers)
        self.body = body

    @property
    def taken(self) -> bool:
        """Whether the client has received the notification (A2A 1.0, section 4.3.3)."""
        return 200 <= self.status < 300


class UnsentError(Exception):
    """The client gave no answer; `status` is what the agent gets instead, `code` that of the finding."""

    def __init__(self, status: int, message: str, code: str = "push_unsent") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class WebhookSender:
    """Sends notifications to the webhooks that `targets` allows."""

    def __init__(self, targets: WebhookTargets) -> None:
        self._targets = targets
        self._names = BoundedThreads("webhook names", 8, lambda: UpstreamError("too many names are being resolved"))
        """Clients choose the names, and how long their servers take to answer."""

    @cached_property
    def _tls(self) -> SSLContext:
        return TlsFiles(setting="push", ca_setting="push").client_context()

    async def send(self, url: str, method: str, query: bytes, headers: RawHeaders, body: bytes) -> WebhookAnswer:
        """Send a notification; `query` is added to that of `url`. Raises UnsentError."""
        try:
            return await self._send(url, method, query, headers, body)
        except UpstreamError as error:
            raise UnsentError(502, f"the webhook gave no answer: {error}") from None

    async def _send(self, url: str, method: str, query: bytes, headers: RawHeaders, body: bytes) -> WebhookAnswer:
        parts = urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        target = (parts.path or "/").encode()
        query = b"&".join(part for part in (parts.query.encode(), query) if part)
        head = [(b"host", parts.netloc.encode()), *headers]
        problem: UpstreamError | None = None
        for address in await self._addresses(host, port):
            client = HttpClient(
                address, port, tls=self._tls if secure else None, tls_name=host, connect_timeout_s=TIMEOUT_S
            )
            try:
                return await _answer(client, method, target + b"?" + query if query else target, head, body)
            except UpstreamUnreachableError as error:
                problem = error  # nothing was sent: the next address may be reachable
            finally:
                client.close()
        raise problem or UpstreamError("its name has no address")

    async def _addresses(self, host: str, port: int) -> Iterable[str]:
        """The addresses of a host to which the proxy may send: they are checked, and then used as they are."""
        try:
            found = await self._names.run(lambda _: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            raise UpstreamError(f"its name cannot be resolved: {error}") from None
        addresses = dict.fromkeys(str(item[4][0]) for item in found)
        allowed = [one for one in addresses if self._targets.allows(host, ip_address(one.partition("%")[0]))]
        if addresses and not allowed:
            message = f"the proxy does not send to {host}: its address is not allowed by --push-allow"
            raise UnsentError(403, message, "push_not_allowed")
        return allowed


async def _answer(client: HttpClient, method: str, target: bytes, headers: RawHeaders, body: bytes) -> WebhookAnswer:
    response = await client.request(method.encode(), target, headers, body)
    content = b""
    try:
        async with asyncio.timeout(BODY_S):
            while len(content) < _MAX_ANSWER_BYTES and (chunk := await response.read()):
                content += chunk
    except (TimeoutError, UpstreamError):
        pass  # the client has answered: to send it again would double it
    finally:
        response.close()
    # A redirect is not for the agent either: it would lead around the proxy.
    drop = _LOCATION if method == "HEAD" else _LOCATION | {b"content-length"}
    return WebhookAnswer(response.status, response_headers(response.headers, drop=drop), content[:_MAX_ANSWER_BYTES])
