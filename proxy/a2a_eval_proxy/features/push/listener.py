"""Where agents send notifications: an ASGI application that captures each one and passes it on to its webhook."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import AsyncExitStack
from functools import cached_property
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from a2a_tool_capture import Finding, Severity
from a2a_tool_capture.wire import TERMINAL_STATES

from ...body_memory import HeldBody
from ...clock import CLOCK
from ...net.file_watcher import FileWatch
from ...net.http_client import HttpClient, RawHeaders, UpstreamError, UpstreamUnreachableError, request_head
from ...net.http_server import HttpServer
from ...net.tls import TlsFiles, server_tls
from ...protocol.answers import state_of, task_id_of
from ...protocol.error_bodies import LocalResponse
from ...protocol.extension_filter import UnreadableError
from ...protocol.headers import read_request, response_headers
from ...relay.webhooks import WebhookPort, Webhooks
from ...relay.wire_log import WireRecord
from ...settings.settings import Agent, Settings
from ...store import Store, StoreError
from ...store.webhooks import Webhook
from ...telemetry.problem_log import ProblemLog
from ...threads import BoundedThreads
from .notifications import (
    Notification,
    NotificationCapture,
    NotificationStream,
    audience_finding,
    digest_of,
    is_signed,
    read_notification,
    safely,
    visible_to_others,
    without_body_fields,
)
from .registry import WebhookRegistry
from .rewriting import RelayAddresses
from .targets import WebhookTargets

TIMEOUT_S = 30.0  # the upper end of what A2A 1.0, section 13.2 recommends to agents
BODY_S = 5.0  # how long the body of an answer may take, whose status is what counts
_MAX_ANSWER_BYTES = 64 * 1024
_LOCATION = frozenset({b"location"})


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
        self._names = BoundedThreads("webhook names", 8, lambda: UnsentError(502, "too many names are being resolved"))
        """Clients choose the names, and how long their servers take to answer."""

    @cached_property
    def _tls(self) -> SSLContext:
        return TlsFiles(setting="push", ca_setting="push").client_context()

    async def send(self, url: str, method: str, query: bytes, headers: RawHeaders, body: bytes) -> LocalResponse:
        """Send a notification; `query` is added to that of `url`. Raises UnsentError."""
        parts = urlsplit(url)
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        target = (parts.path or "/").encode()
        query = b"&".join(part for part in (parts.query.encode(), query) if part)
        head = [(b"host", parts.netloc.encode()), *headers]
        problem = UpstreamError("its name has no address")
        for address in await self._addresses(host, port):
            client = HttpClient(
                address, port, tls=self._tls if secure else None, tls_name=host, connect_timeout_s=TIMEOUT_S
            )
            try:
                return await _answer_of(client, method, target + b"?" + query if query else target, head, body)
            except UpstreamError as error:
                problem = error
            finally:
                client.close()
            if not isinstance(problem, UpstreamUnreachableError):  # else the next address may be reachable
                break
        raise UnsentError(502, f"the webhook gave no answer: {problem}")

    async def _addresses(self, host: str, port: int) -> Iterable[str]:
        """The addresses of a host to which the proxy may send: they are checked, and then used as they are."""
        try:
            found = await self._names.run(lambda _: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            raise UnsentError(502, f"the webhook gave no answer: its name cannot be resolved: {error}") from None
        addresses = dict.fromkeys(str(item[4][0]) for item in found)
        allowed = [one for one in addresses if self._targets.allows(host, ip_address(one.partition("%")[0]))]
        if addresses and not allowed:
            message = f"the proxy does not send to {host}: its address is not allowed by --push-allow"
            raise UnsentError(403, message, "push_not_allowed")
        return allowed


async def _answer_of(client: HttpClient, method: str, target: bytes, headers: RawHeaders, body: bytes) -> LocalResponse:
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
    return LocalResponse(response.status, response_headers(response.headers, drop=drop), content[:_MAX_ANSWER_BYTES])


logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
_ID = re.compile(rf"/({RelayAddresses.ID})$")
TURN_S = 1.0
"""How long the answer to a notification keeps the next one waiting: a webhook that hangs on one loses no other."""

_TOO_MANY = "too many notifications are on their way"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""The methods of RFC 9110, section 9.2.1: agents verify webhooks with them, and send no notifications."""


class PushListener:
    """Answers the requests of one agent to the addresses of webhooks."""

    def __init__(
        self,
        webhooks: WebhookRegistry,
    ) -> None:
        self._path = f"{urlsplit(webhooks.push_url).path}/***".encode()
        self._webhooks = webhooks
        self._capture = NotificationCapture(webhooks.book)
        self._sender = WebhookSender(webhooks.targets)
        self._max_body_bytes = webhooks.max_body_bytes
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By webhook: whose notification is sent next, in the order in which they arrive."""
        self._unsent = ProblemLog(logger, "{count} notification(s) did not reach their webhooks")

    def close(self) -> None:
        self._unsent.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Callable[[Message], Awaitable[None]]) -> None:
        held = HeldBody(self._webhooks.bodies)
        try:
            answer = await self._answer(scope, receive, held)
        finally:
            held.drop()
        if answer is not None:  # else the agent left
            await respond(scope, send, answer)

    async def _answer(self, scope: Scope, receive: Receive, held: HeldBody) -> LocalResponse | None:
        match = _ID.search(scope["path"])
        if match is None:
            return _NOT_FOUND
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._received(match[1], scope, receive, held)
        except UnsentError as error:
            return _error(error.status, str(error))
        except TimeoutError:
            self._unsent.seen()
            message = f"the webhook did not take this and earlier notifications within {TIMEOUT_S:g} s"
            stream = self._capture.known(match[1])
            if stream is not None and scope["method"] not in _SAFE:
                self._capture.report(stream, Finding("push_timeout", message, Severity.WARNING))
            return _error(504, message)

    async def _received(self, webhook_id: str, scope: Scope, receive: Receive, held: HeldBody) -> LocalResponse | None:
        """Once it has arrived, a notification is passed on though its agent leaves: senders stop waiting after a few
        seconds. Until then, it keeps no other waiting. Raises UnsentError."""
        first = await receive()  # before anything else: where the agent leaves, this may be lost
        if first.get("more_body"):
            await self._webhook(webhook_id)  # the rest is read for a webhook only
        body = await self._body(first, receive, held)
        if body is None:
            return None
        if scope["method"] in _SAFE:
            return await self._verified(await self._webhook(webhook_id), scope, body, held)
        async with self._turns.setdefault(webhook_id, asyncio.Lock()):  # whose waiters are served in order
            webhook = await self._webhook(webhook_id)
            original = await self._read(scope, body, held)
            notification = await self._restored(original)
            stream = self._captured(webhook, notification)
            wire = safely(self._recorded, original, stream.task_id, scope["method"])
            passing_on = asyncio.create_task(self._passed_on(webhook, notification, stream, scope, wire))
            try:
                await asyncio.wait({passing_on}, timeout=TURN_S)
            except asyncio.CancelledError:
                passing_on.cancel()
                raise
        return await passing_on

    def _captured(self, webhook: Webhook, notification: Notification) -> NotificationStream:
        """Report a notification to capture, and learn from it which task the webhook has, and that it has ended;
        returns its stream."""
        stream = self._capture.stream(webhook.webhook_id, ended=webhook.task_ended)
        if notification.event is None:
            return stream
        if named := task_id_of(notification.event):
            self._webhooks.names(webhook, named)
        task_id = self._capture.take(stream, notification.body, notification.event)
        if task_id and state_of(notification.event) in TERMINAL_STATES:
            self._webhooks.task_ended(task_id)
        return stream

    async def _verified(self, webhook: Webhook, scope: Scope, body: bytes, held: HeldBody) -> LocalResponse:
        """What the client answers to a request that is no notification: it is neither captured nor kept in order, as
        the agent may wait for the answer before it takes the webhook. Tool calls are removed all the same."""
        original = await self._read(scope, body, held)
        visible = _visible(webhook, await self._restored(original), set())
        if visible is None:
            return LocalResponse(204, [], b"")
        return await self._sender.send(webhook.url, scope["method"], scope["query_string"], *visible)

    async def _webhook(self, webhook_id: str) -> Webhook:
        try:
            webhook = await self._webhooks.get(webhook_id)
        except StoreError as error:
            logger.warning("a notification was refused with status 503: %s", error)
            raise UnsentError(503, "the store of the proxy cannot be read now") from None
        if webhook is None:
            raise UnsentError(404, _NO_WEBHOOK)
        return webhook

    async def _passed_on(
        self,
        webhook: Webhook,
        notification: Notification,
        stream: NotificationStream,
        scope: Scope,
        wire: WireRecord | None,
    ) -> LocalResponse:
        """Send a notification, and keep what came of it. Raises UnsentError."""
        answer, problem = None, ""
        try:
            answer = await self._sent(webhook, notification, stream, scope)
        except UnsentError as error:
            self._unsent.seen()
            self._capture.report(stream, Finding(error.code, str(error), Severity.WARNING))
            answer, problem = _error(error.status, str(error)), error.code
        except asyncio.CancelledError:  # its time is over
            problem = "push_timeout"
            raise
        finally:
            if wire is not None:
                safely(_end, wire, answer, problem)
        return answer

    async def _sent(
        self, webhook: Webhook, notification: Notification, stream: NotificationStream, scope: Scope
    ) -> LocalResponse:
        """Send a notification to its webhook, without tool calls where its client did not ask. Raises UnsentError."""
        problem = audience_finding(notification.headers, self._webhooks.push_url)
        if problem is not None:
            self._capture.report(stream, problem)
        visible = _visible(webhook, notification, stream.withheld)
        is_task = not webhook.asked and notification.event is not None and "task" in notification.event
        if visible is None or (is_task and digest_of(visible[1]) == stream.shown):
            stream.taken(notification.body)  # it shows nothing new: the agent sends it for its tool calls
            return LocalResponse(204, [], b"")
        answer = await self._sender.send(webhook.url, scope["method"], scope["query_string"], *visible)
        if 200 <= answer.status < 300:  # the client has received it (A2A 1.0, section 4.3.3)
            stream.taken(notification.body)
            stream.shown = digest_of(visible[1])
        return answer

    def _recorded(self, notification: Notification, task_id: str, method: str) -> WireRecord | None:
        """The notification as its agent sent it, for the wire of its turn."""
        if (log := self._webhooks.wire_log) is None or not task_id:
            return None
        headers, body = notification.headers, notification.body
        if self._webhooks.addresses.may_be_in(notification.decoded):
            headers = headers if notification.decoded is body else without_body_fields(headers)
            body = self._webhooks.addresses.masked(notification.decoded)
        wire = log.begin(CLOCK.now(), request_head(method.encode(), self._path, headers), body)
        if wire is not None:
            wire.is_notification, wire.named_task = True, task_id
        return wire

    async def _restored(self, notification: Notification) -> Notification:
        """With the client's own URL where the agent repeats the proxy's address in an unsigned notification."""
        headers = notification.headers
        if not self._webhooks.addresses.may_be_in(notification.decoded) or is_signed(headers):
            return notification
        restored = await self._webhooks.restored(notification.decoded)
        if restored is notification.decoded:
            return notification
        return read_notification(without_body_fields(headers), restored, self._max_body_bytes)

    async def _read(self, scope: Scope, body: bytes, held: HeldBody) -> Notification:
        """Raises UnsentError where there is no room for what a body is without its coding."""
        headers = read_request(scope["headers"]).forward
        most = self._max_body_bytes
        size = most if any(name == b"content-encoding" for name, _ in headers) else len(body)
        notification = await held.parse(size, read_notification, headers, body, most)
        if notification.decoded is not body and not held.take(len(notification.decoded)):
            raise UnsentError(503, _TOO_MANY)
        return notification

    async def _body(self, first: Message, receive: Receive, held: HeldBody) -> bytes | None:
        """The body that begins with `first`; None where the agent leaves before its end. Raises UnsentError."""
        chunks: list[bytes] = []
        size, message = 0, first
        while message["type"] != "http.disconnect":
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._max_body_bytes:
                raise UnsentError(413, f"the notification exceeds {self._max_body_bytes} bytes (limits.body_bytes)")
            if not held.take(len(chunk)):
                raise UnsentError(503, _TOO_MANY)
            chunks.append(chunk)
            if not message.get("more_body"):
                return b"".join(chunks)
            message = await receive()
        return None


def _visible(webhook: Webhook, notification: Notification, withheld: set[str]) -> tuple[RawHeaders, bytes] | None:
    """As `visible_to_others`, if the client of the webhook did not request the extension. Raises UnsentError."""
    if webhook.asked:
        return notification.headers, notification.body
    try:
        return visible_to_others(notification, withheld)
    except UnreadableError as error:
        raise UnsentError(422, f"a notification was not passed on: {error}", "push_withheld") from None


def _end(wire: WireRecord, answer: LocalResponse | None, problem: str) -> None:
    """A notification got this answer (None: none in time), with the code of a finding."""
    if answer is not None:
        wire.status, wire.headers, wire.response_at = answer.status, answer.headers, CLOCK.now()
        wire.part(answer.body, CLOCK.now())
    wire.end(CLOCK.now(), problem, b"")


async def respond(scope: Scope, send: Callable[[Message], Awaitable[None]], answer: LocalResponse) -> None:
    headers = answer.headers
    if scope["method"] != "HEAD":  # the answer to HEAD has the length of a body that it omits
        headers = [*headers, (b"content-length", b"%d" % len(answer.body))]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def _error(status: int, message: str) -> LocalResponse:
    body = json.dumps({"error": {"code": status, "message": message}}).encode()
    return LocalResponse(status, [(b"content-type", b"application/json")], body)


_NO_WEBHOOK = "no webhook has this address, or it has none any more"
_NOT_FOUND = _error(404, "this is where agents send notifications of tasks")


class PushPort(WebhookPort):
    """The last part but one of the path of a notification names the agent, where there are several."""

    def __init__(self, settings: Settings, files: FileWatch) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._relayed: dict[bytes, WebhookRegistry] = {}
        self._listeners: dict[bytes, PushListener] = {}
        self._tls = server_tls(TlsFiles.of(*settings.tls_of("push")), files, "TLS for notifications")

    def of(self, agent: Agent, store: Store, identifier: Callable[[str], str]) -> Webhooks | None:
        if agent.settings.push_mode == "pass":
            return None
        found = self._relayed[agent.name.encode()] = WebhookRegistry(store, agent, identifier)
        return found

    async def open(self, stack: AsyncExitStack, server: Callable[..., HttpServer]) -> None:
        for name, webhooks in self._relayed.items():
            listener = self._listeners[name] = PushListener(webhooks)
            stack.callback(listener.close)
        if self._relayed:
            port = server(self._receive, self._settings.push_listen, setting="--push-listen", tls=self._tls)
            await port.open(stack)
            logger.info("webhooks: notifications of the agent are received on %s", port.url)

    async def _receive(self, scope: Any, receive: Any, send: Any) -> None:
        name = (b"", *scope["raw_path"].split(b"/"))[-2]
        listener = self._listeners.get(name) or self._listeners.get(b"")
        await (listener(scope, receive, send) if listener else respond(scope, send, _NOT_FOUND))
