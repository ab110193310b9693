"""Requests about webhooks: relayed, refused, or passed on as they are where they cannot be relayed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..protocol.error_bodies import INVALID_PARAMS, PUSH_NOT_SUPPORTED, A2AProblem
from ..protocol.headers import DIGESTS
from ..protocol.operations import A2ARequest, Operation
from ..push.notifications import is_signed
from ..push.relay import NotRelayedError, PushRelay
from ..push.rewriting import webhooks_in
from ..store import StoreError
from ..store.webhooks import Webhook
from .tap import Tap

if TYPE_CHECKING:
    from .client_request import ClientRequest

logger = logging.getLogger(__name__)


class RefusedWebhookError(Exception):
    """The request does not reach the agent; the client gets this error."""

    def __init__(self, problem: A2AProblem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


def may_concern_webhooks(client: ClientRequest) -> bool:
    """Whether the request may set, show or delete webhooks; a cheap test that never wrongly returns False for a body
    in UTF-8 without content coding."""
    if client.rest is not None and client.rest.operation is Operation.PUSH_CONFIG:
        return True
    return b"otification" in client.body or b"\\u" in client.body or bool(client.head.content_encoding)


def refuse_webhooks(client: ClientRequest, tap: Tap) -> None:
    """Raises RefusedWebhookError for a request that sets a webhook."""
    request = tap.read_request(client.rest, client.body)
    if request is None or not request.has_webhook:
        return
    try:
        places = webhooks_in(client.body.decode(), request)
    except ValueError:
        places = []
    if places or (request.operation is not Operation.PUSH_CONFIG and client.head.content_encoding):
        raise RefusedWebhookError(PUSH_NOT_SUPPORTED, "this proxy does not allow push notifications (--push refuse)")


class WebhookRequest:
    """A request about webhooks that are relayed. `body` is what the agent gets."""

    def __init__(self, relay: PushRelay, client: ClientRequest, request: A2ARequest) -> None:
        self._relay = relay
        self._client = client
        self._request = request
        self._webhooks: list[Webhook] = []
        self.body = client.body
        self.problem = ""
        """Why the webhooks of the request are not relayed; "" if they are."""

    async def prepare(self, tap: Tap) -> None:
        """Give its webhooks addresses of the proxy, or set `problem`. Raises RefusedWebhookError."""
        request, headers = self._request, self._client.head.forward
        try:
            if self._client.head.content_encoding:
                raise NotRelayedError("the request is compressed")
            if is_signed(headers) or any(name in DIGESTS for name, _ in headers):
                raise NotRelayedError("the request is signed, or has a digest")
            body, self._webhooks = await self._relay.rewritten(self.body, request, asked=tap.requested)
        except ValueError as error:
            raise RefusedWebhookError(INVALID_PARAMS, str(error)) from None
        except NotRelayedError as error:
            self.problem = f"the agent notifies a webhook past the proxy: {error}"
            logger.warning("%s", self.problem)
            return
        self.body = body
        request.has_webhook = tap.has_foreign_webhook

    async def shown(self, tap: Tap, status: int, response: bytes) -> bytes:
        """The body of a response about configurations, as the client may see it."""
        request, client = self._request, self._client
        try:
            await self._relay.learn_response(
                request, client.method, client.scope["path"], client.body, status, response
            )
            shown = await self._relay.restored(response)
        except StoreError as error:
            logger.warning("a client sees the proxy's address in place of its webhook's: %s", error)
            return response
        if response.count(b'"url"') > self._relay.addresses_in(response):
            request.has_webhook = True  # one that was set past the proxy
            tap.remember_tasks()
        return shown

    async def learn_tasks(self, task_ids: Iterable[str]) -> None:
        """The response has named these tasks."""
        await self._relay.learn_tasks(self._webhooks, task_ids)
