"""Sends notifications to webhooks: to allowed addresses only, within a time limit, and follows no redirect.

Those that a webhook has not taken yet are in the store, and are sent again in order until they are taken.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import socket
from collections.abc import Callable, Iterable
from functools import cached_property
from ipaddress import ip_address
from ssl import SSLContext
from urllib.parse import urlsplit

from a2a_tool_capture import Finding, Severity

from ..net.http_client import HttpClient, RawHeaders, UpstreamError, UpstreamUnreachableError
from ..net.tls import TlsFiles
from ..protocol.headers import response_headers
from ..protocol.webhook_targets import WebhookTargets
from ..store import StoreError
from ..store.reads import StoreReads
from ..store.webhooks import Delivery, Webhook
from ..telemetry.problem_log import ProblemLog
from ..threads import BoundedThreads

logger = logging.getLogger(__name__)

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


FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
MAX_AGE_S = 86_400.0  # after this time a notification is given up
_LEASE_S = 2 * TIMEOUT_S  # how long a process that was killed while sending keeps others from sending to a webhook
_LOOK_EVERY_S = 30.0
_AT_ONCE = 50
_TRIED_AGAIN = frozenset({408, 425, 429})


def pause_s(failures: int) -> float:
    """The pause after this number of attempts in a row that failed."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures - 1, 20))


def is_refused(status: int) -> bool:
    """Whether a client refuses a notification for good."""
    return 300 <= status < 500 and status not in _TRIED_AGAIN


class RetryQueue:
    """Sends what waits in the store. Belongs to one event loop. `now` is in seconds since the epoch."""

    def __init__(
        self,
        store: StoreReads,
        sender: WebhookSender,
        now: Callable[[], float],
        on_given_up: Callable[[Webhook, RawHeaders, bytes, Finding], None],
        agent_name: str,
    ) -> None:
        """For the webhooks of one of several agents; the name of an only one is "".

        `on_given_up` receives the webhook, header and body of a notification that is given up, and why."""
        self._on_given_up = on_given_up
        self._agent_name = agent_name
        self._table = store.deliveries
        self._webhooks = store.webhooks
        self._sender = sender
        self._owner = secrets.token_hex(8) if store.shared else "the only process"
        self._now = now
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._news: set[str] = set()  # webhooks for which a notification was kept while they were sent to
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._given_up = ProblemLog(logger, "{count} notification(s) were given up: their webhooks did not take them")

    async def keep(self, webhook: Webhook, method: str, query: bytes, headers: RawHeaders, body: bytes) -> bool:
        """Keep a notification; it is committed when this returns. False where too many wait. Raises StoreError."""
        content = {
            "method": method,
            "query": query.decode("latin-1"),
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in headers],
            "body": base64.b64encode(body).decode(),
        }
        kept = await self._table.add(
            Delivery(webhook.webhook_id, json.dumps(content), int(self._now())), self._agent_name
        )
        if kept:
            self._wake(webhook.webhook_id)
        return kept

    async def watch(self) -> None:
        """Send what earlier and other processes left. Ends by being cancelled."""
        while True:
            try:
                for webhook_id in await self._table.waiting(self._agent_name):
                    self._wake(webhook_id)
            except StoreError as error:
                logger.debug("waiting notifications could not be looked for: %s", error)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def close(self) -> None:
        """Stop sending; what was not taken stays in the store."""
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._given_up.close()

    def _wake(self, webhook_id: str) -> None:
        self._news.add(webhook_id)
        if webhook_id not in self._sending:
            self._sending[webhook_id] = asyncio.get_running_loop().create_task(self._send_all(webhook_id))

    async def _send_all(self, webhook_id: str) -> None:
        try:
            while webhook_id in self._news:
                self._news.discard(webhook_id)
                due_at = await self._send_first(webhook_id)
                if due_at is not None:
                    self._news.add(webhook_id)
                    await asyncio.sleep(max(0.0, due_at - self._now()))
        except StoreError as error:
            logger.debug("waiting notifications cannot be read: %s", error)  # `watch` tries again
        finally:
            del self._sending[webhook_id]

    async def _send_first(self, webhook_id: str) -> float | None:
        """Send the first one that waits, if it is due; returns when to continue, None where there is nothing to do."""
        async with self._at_once:
            delivery = await self._table.first(webhook_id)
            if delivery is None:
                return None
            now = self._now()
            if delivery.due_at > now:
                return delivery.due_at
            webhook = await self._webhooks.get(webhook_id)
            if webhook is None:  # its configuration was deleted
                await self._table.remove_all(webhook_id)
                return None
            if not await self._table.lease(webhook_id, self._owner, now, now + _LEASE_S):
                return now + FIRST_PAUSE_S  # another process sends to it
            due_at = now
            first = await self._table.first(webhook_id)
            if first is not None and first.number == delivery.number:  # no other process has just sent it
                if await self._is_done(webhook, delivery):
                    await self._table.remove(delivery)
                else:
                    due_at = self._now() + pause_s(delivery.tries + 1)
                    await self._table.failed(delivery, due_at)
            await self._table.lease(webhook_id, self._owner, now, 0)
            return due_at

    async def _is_done(self, webhook: Webhook, delivery: Delivery) -> bool:
        """Send it; returns whether it was taken, or is given up."""
        content = json.loads(delivery.content)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in content["headers"]]
        body = base64.b64decode(content["body"])
        code = "push_given_up"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                answer = await self._sender.send(
                    webhook.url, content["method"], content["query"].encode("latin-1"), headers, body
                )
            status, why = answer.status, f"the webhook answered with status {answer.status}"
        except TimeoutError:
            status, why = 504, f"the webhook did not answer within {TIMEOUT_S:g} s"
        except UnsentError as error:
            status, why = error.status, str(error)
            code = error.code if error.status == 403 else code
        if 200 <= status < 300:
            return True
        if not is_refused(status) and self._now() - delivery.kept_at <= MAX_AGE_S:
            return False
        self._given_up.seen()
        message = f"a notification was given up after {delivery.tries + 1} attempt(s): {why}"
        self._on_given_up(webhook, headers, body, Finding(code, message, Severity.WARNING))
        return True
