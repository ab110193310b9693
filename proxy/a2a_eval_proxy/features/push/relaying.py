"""Webhooks of one agent's clients: relayed or refused; and the port where notifications for those of all arrive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from ...body_memory import BodyMemory
from ...capture.turn_book import TurnBook
from ...net.file_watcher import FileWatch
from ...net.http_server import HttpServer
from ...net.tls import TlsFiles, server_tls
from ...protocol.error_bodies import INVALID_PARAMS, PUSH_NOT_SUPPORTED
from ...protocol.headers import DIGESTS
from ...protocol.operations import SETS_WEBHOOKS, A2ARequest, Operation, decode_json
from ...relay.relayed_exchange import RelayedExchange
from ...relay.webhooks import RefusedWebhookError, RequestedWebhooks, WebhookExchange, WebhookPort, Webhooks
from ...relay.wire_log import WireLog
from ...settings.settings import Agent, Settings
from ...store import Store, StoreError
from ...store.webhooks import Webhook
from .listener import NOT_FOUND, PushListener, respond
from .notifications import is_signed
from .registry import WebhookRegistry

logger = logging.getLogger(__name__)


class PushPort(WebhookPort):
    """The last part but one of the path of a notification names the agent, where there are several."""

    def __init__(self, settings: Settings, files: FileWatch) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._relayed: dict[bytes, RelayedWebhooks] = {}
        """By the name of the agent."""
        self._tls = server_tls(TlsFiles.of(*settings.tls_of("push")), files, "TLS for notifications")

    def of(self, agent: Agent, store: Store, identifier: Callable[[str], str]) -> Webhooks | None:
        match agent.settings.push_mode:
            case "pass":
                return None
            case "refuse":
                return RefusedWebhooks()
        found = self._relayed[agent.name.encode()] = RelayedWebhooks(agent, store, identifier)
        return found

    async def open(self, stack: AsyncExitStack, server: Callable[..., HttpServer]) -> None:
        if self._relayed:
            port = server(self._receive, self._settings.push_listen, setting="--push-listen", tls=self._tls)
            await port.open(stack)
            logger.info("webhooks: notifications of the agent are received on %s", port.url)

    async def _receive(self, scope: Any, receive: Any, send: Any) -> None:
        name = (b"", *scope["raw_path"].split(b"/"))[-2]
        relayed = self._relayed.get(name) or self._relayed.get(b"")
        await (relayed.listener(scope, receive, send) if relayed else respond(scope, send, NOT_FOUND))


class RefusedWebhooks(Webhooks):
    """With `--push refuse`."""

    refuses = True

    async def begin(self, exchange: RelayedExchange, asked: RequestedWebhooks) -> None:
        if asked.wanted or asked.unclear:
            reason = f"; the request may set a webhook: {asked.unclear}" if asked.unclear else ""
            message = f"this proxy does not allow push notifications (--push refuse){reason}"
            raise RefusedWebhookError(PUSH_NOT_SUPPORTED, message)


class RelayedWebhooks(Webhooks):
    """With `--push relay`."""

    relays = True
    listener: PushListener

    def __init__(self, agent: Agent, store: Store, identifier: Callable[[str], str]) -> None:
        self.registry = WebhookRegistry(store, agent, identifier)
        self.may_show = self.registry.addresses.may_be_in  # type: ignore[method-assign]  # that is all of it
        self.keeps_open = self.registry.keeps_open  # type: ignore[method-assign]
        self._max_body_bytes = agent.settings.limits.body_bytes

    async def begin(self, exchange: RelayedExchange, asked: RequestedWebhooks) -> WebhookExchange | None:
        request, unclear = asked.request, asked.unclear
        if asked.wanted and (request is None or request.operation not in SETS_WEBHOOKS):
            unclear = unclear or "it is no request of A2A that the proxy knows"
        if unclear:
            raise RefusedWebhookError(
                INVALID_PARAMS, f"the proxy cannot tell which webhook the request sets: {unclear}"
            )
        if request is None or not request.has_webhook:
            return None
        relayed = RelayedRequest(self.registry, exchange, request, asked)
        await relayed.prepare()
        return relayed

    async def restored(self, body: bytes) -> bytes:
        try:
            return await self.registry.restored(body)
        except StoreError as error:
            logger.warning("a client sees the proxy's address in place of its webhook's: %s", error)
            return body

    async def restoring(self, body: bytes) -> Callable[[str], str] | None:
        try:
            urls = await self.registry.own_urls(body)
        except StoreError as error:
            logger.warning("a client may see the proxy's address in place of its webhook's: %s", error)
            return None
        return partial(self.registry.addresses.restored_text, urls=urls) if urls else None

    def receive(self, book: TurnBook, bodies: BodyMemory, wire_log: WireLog | None) -> None:
        self.listener = PushListener(self.registry, book, bodies, self._max_body_bytes, wire_log)

    def start(self, stack: AsyncExitStack) -> None:
        stack.callback(self.listener.close)
        stack.push_async_callback(self.registry.close)
        stack.callback(asyncio.get_running_loop().create_task(self.registry.watch()).cancel)


class RelayedRequest(WebhookExchange):
    """A request about webhooks that are relayed."""

    def __init__(
        self, registry: WebhookRegistry, exchange: RelayedExchange, request: A2ARequest, asked: RequestedWebhooks
    ) -> None:
        self._registry = registry
        self._exchange = exchange
        self._request = request
        self._asked = asked
        self._webhooks: Sequence[Webhook] = ()

    async def prepare(self) -> None:
        """Find addresses of the proxy for the webhooks, or set `problem`. Raises RefusedWebhookError."""
        exchange, asked = self._exchange, self._asked
        try:
            self._registry.check_targets(asked.wanted)
        except ValueError as error:
            raise RefusedWebhookError(INVALID_PARAMS, str(error)) from None
        why = asked.unchangeable
        if not why and (is_signed(asked.headers) or any(name in DIGESTS for name, _ in asked.headers)):
            why = "the request is signed, or has a digest"
        if not why:
            try:
                self._webhooks = await self._registry.register(
                    asked.wanted, asked=exchange.requested, task_id=exchange.named_task
                )
            except StoreError as error:
                why = f"it could not be stored: {error}"
        if why:
            self.problem = f"the agent notifies a webhook past the proxy: {why}"
            logger.warning("%s", self.problem)
            return
        if self._webhooks:
            self.addresses = [self._registry.addresses.address(webhook.webhook_id) for webhook in self._webhooks]
            exchange.is_notified = True
            self._registry.set_by(self._webhooks, exchange)
        self._request.has_webhook = exchange.has_foreign_webhook()

    async def answered(self, response: bytes) -> bytes:
        try:
            payload = decode_json(response) if response else {}
        except ValueError:
            return response
        self.refused = self.refused or (isinstance(payload, dict) and payload.get("error") is not None)
        try:
            if not self.refused and self._asked.deleted is None:
                await self._registry.have_config_ids(self._registry.addresses.config_ids(payload))
            elif not self.refused:
                await self._registry.remove(self._request.named_task, self._asked.deleted or "")
            shown = await self._registry.restored(response)
        except StoreError as error:
            logger.warning("a client sees the proxy's address in place of its webhook's: %s", error)
            return response
        if response.count(b'"url"') > len(self._registry.addresses.ids_in(response)):  # one that was set past the proxy
            self._request.has_webhook = True
            self._exchange.remember_tasks()
        return shown

    def finish(self, *, complete: bool) -> None:
        exchange = self._exchange
        if not exchange.awaits_notification:
            self._registry.answered(self._webhooks)
        self._registry.learn_tasks(self._webhooks, exchange.task_ids)
        if self._request.operation is Operation.PUSH_CONFIG:
            over = self.refused
        else:  # a response without a task is an error or a Message: nothing follows
            over = complete and exchange.unreadable is None and (exchange.task_over or not exchange.task_ids)
        if over:
            self._registry.not_expected(self._webhooks)
