"""Requests about webhooks: relayed, refused, or passed on as they are where they cannot be relayed."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from ..net.http_client import RawHeaders
from ..protocol.error_bodies import INVALID_PARAMS, PUSH_NOT_SUPPORTED, A2AProblem
from ..protocol.headers import DIGESTS
from ..protocol.operations import SENDS_MESSAGE, A2ARequest, Operation, decode_json
from ..protocol.webhooks import NewWebhook, WebhookPlace
from ..push.notifications import is_signed
from ..push.registry import WebhookRegistry
from ..push.rewriting import deleted_config, replaced
from ..store import StoreError
from ..store.webhooks import Webhook
from .relayed_exchange import RelayedExchange

if TYPE_CHECKING:
    from .client_request import ClientRequest

logger = logging.getLogger(__name__)


class RefusedWebhookError(Exception):
    """The request does not reach the agent; the client gets this error."""

    def __init__(self, problem: A2AProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


def sets_webhooks(request: A2ARequest | None) -> bool:
    """Whether the request is one that sets webhooks in A2A."""
    return request is not None and (request.operation is Operation.PUSH_CONFIG or request.operation in SENDS_MESSAGE)


def check_webhooks(push_mode: str, request: A2ARequest | None, *, sets: bool, unclear: str) -> None:
    """Raises RefusedWebhookError where the proxy lets no webhooks pass (`--push refuse`), or is to relay those that it
    cannot read. `sets`: the request sets some; `unclear`: why that cannot be told."""
    if push_mode == "refuse" and (sets or unclear):
        reason = f"; the request may set a webhook: {unclear}" if unclear else ""
        message = f"this proxy does not allow push notifications (--push refuse){reason}"
        raise RefusedWebhookError(PUSH_NOT_SUPPORTED, message)
    if sets and not sets_webhooks(request):
        unclear = unclear or "it is no request of A2A that the proxy knows"
    if push_mode == "relay" and unclear:
        raise RefusedWebhookError(INVALID_PARAMS, f"the proxy cannot tell which webhook the request sets: {unclear}")


class WebhookRequest(ABC):
    """A request about webhooks that are relayed."""

    def __init__(self, registry: WebhookRegistry, request: A2ARequest, headers: RawHeaders) -> None:
        self._registry = registry
        self._request = request
        self._headers = headers
        self._webhooks: list[Webhook] = []
        self.problem = ""
        """Why the webhooks of the request are not relayed; "" if they are."""
        self.refused = False
        """Whether the agent's response is an error."""

    @abstractmethod
    def _wanted(self) -> list[NewWebhook]:
        """The webhooks that the request sets."""

    def _unchangeable(self) -> str:
        """Why the request has to pass as it is; "" if it may be changed."""
        signed = is_signed(self._headers) or any(name in DIGESTS for name, _ in self._headers)
        return "the request is signed, or has a digest" if signed else ""

    @abstractmethod
    def _replace(self, addresses: list[str]) -> None:
        """Give these addresses to the agent, in the order of `_wanted`."""

    async def prepare(self, exchange: RelayedExchange) -> None:
        """Give the webhooks addresses of the proxy, or set `problem`. Raises RefusedWebhookError."""
        wanted = self._wanted()
        try:
            self._registry.check_targets(wanted)
        except ValueError as error:
            raise RefusedWebhookError(INVALID_PARAMS, str(error)) from None
        why = self._unchangeable()
        if not why:
            try:
                self._webhooks = await self._registry.register(
                    wanted, asked=exchange.requested, task_id=exchange.named_task
                )
            except StoreError as error:
                why = f"it could not be stored: {error}"
        if why:
            self.problem = f"the agent notifies a webhook past the proxy: {why}"
            logger.warning("%s", self.problem)
            return
        if self._webhooks:
            self._replace([self._registry.addresses.address(webhook.webhook_id) for webhook in self._webhooks])
            exchange.is_notified = True
            self._registry.set_by(self._webhooks, exchange)
        self._request.has_webhook = exchange.has_foreign_webhook()

    async def learn(self, payload: Any, deleted: str | None) -> None:
        """Take over from a response which ids configurations have, or that one (its id) is deleted.

        Raises StoreError.
        """
        if deleted is None:
            await self._registry.have_config_ids(self._registry.addresses.config_ids(payload))
        else:
            await self._registry.remove(self._request.named_task, deleted)

    def notice_foreign(self, response: bytes, exchange: RelayedExchange) -> None:
        """Remember the task where a response, as JSON, shows a webhook that was set past the proxy."""
        if response.count(b'"url"') > len(self._registry.addresses.ids_in(response)):
            self._request.has_webhook = True
            exchange.remember_tasks()

    def finish(self, exchange: RelayedExchange, *, complete: bool) -> None:
        """The exchange is over, and `exchange` has ended. `complete`: the whole response has arrived."""
        if not exchange.awaits_notification:
            self._registry.answered(self._webhooks)
        self._registry.learn_tasks(self._webhooks, exchange.task_ids)
        if self._request.operation is Operation.PUSH_CONFIG:
            over = self.refused
        else:  # a response without a task is an error or a Message: nothing follows
            over = complete and exchange.unreadable is None and (exchange.task_over or not exchange.task_ids)
        if over:
            self._registry.not_expected(self._webhooks)


class HttpWebhookRequest(WebhookRequest):
    """A request over JSON-RPC or HTTP+JSON. `body` is what the agent gets."""

    def __init__(
        self, registry: WebhookRegistry, client: ClientRequest, request: A2ARequest, places: list[WebhookPlace]
    ) -> None:
        super().__init__(registry, request, client.head.forward)
        self._client = client
        self._places = places
        self.body = client.body

    def _wanted(self) -> list[NewWebhook]:
        return [place.webhook for place in self._places]

    def _unchangeable(self) -> str:
        return "the request is compressed" if self._client.head.content_encoding else super()._unchangeable()

    def _replace(self, addresses: list[str]) -> None:
        self.body = replaced(self.body.decode(), self._places, addresses).encode()

    async def shown(self, exchange: RelayedExchange, status: int, response: bytes) -> bytes:
        """The body of a response about configurations, as the client may see it."""
        client = self._client
        try:
            payload = decode_json(response) if response else {}
            deleted = deleted_config(client.method, client.scope["path"], decode_json(client.body or b"null"))
        except ValueError:
            return response
        try:
            self.refused = status >= 400 or (isinstance(payload, dict) and payload.get("error") is not None)
            if not self.refused:
                await self.learn(payload, deleted)
            shown = await self._registry.restored(response)
        except StoreError as error:
            logger.warning("a client sees the proxy's address in place of its webhook's: %s", error)
            return response
        self.notice_foreign(response, exchange)
        return shown
