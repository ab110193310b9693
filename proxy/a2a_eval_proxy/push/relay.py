"""Requests about webhooks on their way to the agent, and what the parts of the relay share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import unquote

from ..clock import CLOCK
from ..protocol.operations import A2ARequest, decode_json
from ..protocol.webhook_targets import PUBLIC, WebhookTargets
from ..settings import Settings
from ..store import StoreError
from ..store.webhooks import Webhook
from .capture import NotificationCapture, NotificationStream, shows_final_state
from .notifications import Notification
from .registry import WebhookRegistry
from .retry import RetryQueue
from .rewriting import RelayAddresses, deleted_config, replaced, webhooks_in
from .sender import WebhookSender

logger = logging.getLogger(__name__)


class NotRelayedError(Exception):
    """A webhook stays as it is in the request; the message says why."""


class PushRelay:
    """Gives webhooks addresses of the proxy, and knows what arrives there. Belongs to one event loop."""

    def __init__(self, settings: Settings, registry: WebhookRegistry, capture: NotificationCapture) -> None:
        self.push_url = settings.push_url or ""
        self._targets = WebhookTargets(settings.push_allow or (PUBLIC,))
        self._addresses = RelayAddresses(self.push_url)
        self._check_every_s = settings.turn_timeout / 4
        self.registry = registry
        self.capture = capture
        self.sender = WebhookSender(self._targets)
        self.retry: RetryQueue | None = None
        """None: the agent gets the client's answer."""
        if settings.push_retry:
            self.retry = RetryQueue(registry.store, self.sender, CLOCK.now)

    async def rewritten(self, body: bytes, request: A2ARequest, *, asked: bool) -> tuple[bytes, list[Webhook]]:
        """The body of a request with addresses of the proxy for the webhooks that it sets, which are kept by then.

        Raises ValueError for a webhook to which the proxy does not send, NotRelayedError.
        """
        try:
            text = body.decode()
            places = webhooks_in(text, request)
        except ValueError as error:
            raise NotRelayedError("the request cannot be read as JSON in UTF-8") from error
        for place in places:
            self._targets.check(place.url)
        task_id = request.named_task
        try:
            webhooks = [
                await self.registry.register(
                    place.url, asked=asked, task_id=task_id, config_id=place.config_id, now=CLOCK.now()
                )
                for place in places
            ]
        except StoreError as error:
            raise NotRelayedError(f"it could not be stored: {error}") from error
        if task_id and webhooks:
            self.capture.tasks.add(task_id)
        urls = [self._addresses.address(webhook.webhook_id) for webhook in webhooks]
        return replaced(text, places, urls).encode() if places else body, webhooks

    async def restored(self, body: bytes) -> bytes:
        """JSON of a response with the clients' own URLs. Raises StoreError."""
        urls = {}
        for webhook_id in dict.fromkeys(self._addresses.ids_in(body)):
            webhook = await self.registry.get(webhook_id)
            if webhook is not None:
                urls[webhook_id] = webhook.url
        return self._addresses.restored(body, urls) if urls else body

    def addresses_in(self, body: bytes) -> int:
        """The number of addresses of the proxy in JSON."""
        return len(self._addresses.ids_in(body))

    async def learn_tasks(self, webhooks: Iterable[Webhook], task_ids: Iterable[str]) -> None:
        """The response to a request with webhooks has named its task."""
        for task_id in list(task_ids)[:1]:
            for webhook in webhooks:
                if not webhook.task_key:
                    await self._set_task(webhook, task_id)

    async def learn_response(
        self, request: A2ARequest, method: str, path: str, body: bytes, status: int, response: bytes
    ) -> None:
        """Take over from the response to a request about configurations which ids they have, or which is deleted.

        Raises StoreError.
        """
        try:
            payload = decode_json(response) if response else {}
            deleted = deleted_config(method, path, decode_json(body) if body else None)
        except ValueError:
            return
        if status >= 400 or (isinstance(payload, dict) and payload.get("error") is not None):
            return
        if deleted is not None:
            await self.registry.remove(request.named_task, unquote(deleted))
            return
        for webhook_id, config_id in self._addresses.config_ids(payload).items():
            await self.registry.has_config_id(webhook_id, config_id)

    async def captured(self, webhook: Webhook, notification: Notification) -> NotificationStream:
        """Report a notification to capture, and learn from it which task the webhook has, and that it has ended."""
        stream = self.capture.stream(webhook.webhook_id, ended=bool(webhook.ended_at))
        if notification.event is None:
            return stream
        task_id = self.capture.take(stream, notification.body, notification.event)
        if not task_id:
            return stream
        try:
            if not webhook.task_key:
                await self.registry.belongs_to(webhook.webhook_id, task_id)
            if shows_final_state(notification.event):
                await self.registry.task_ended(task_id, CLOCK.now())
        except StoreError as error:
            logger.debug("what a notification shows of its task is not stored: %s", error)
        return stream

    async def watch(self) -> None:
        """Have turns time out whose webhooks another process has seen the end of. Ends by being cancelled."""
        while True:
            await asyncio.sleep(self._check_every_s)
            with suppress(StoreError):  # it is tried again
                tasks = self.capture.tasks
                for task_id in await self.registry.without_webhook(list(tasks)):
                    tasks.discard(task_id)

    async def _set_task(self, webhook: Webhook, task_id: str) -> None:
        try:
            await self.registry.belongs_to(webhook.webhook_id, task_id)
            self.capture.tasks.add(task_id)
        except StoreError as error:
            logger.debug("the task of a webhook is not stored: %s", error)
