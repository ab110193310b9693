"""Requests about webhooks on their way to the agent, and what the parts of the relay share."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Protocol

from a2a_tool_capture.recent import Recent
from a2a_tool_capture.wire import TERMINAL_STATES

from ..capture.records import state_of, task_id_of
from ..clock import CLOCK
from ..protocol.webhook_targets import PUBLIC, WebhookTargets
from ..protocol.webhooks import NewWebhook
from ..store import StoreError
from ..store.webhooks import Webhook
from .capture import NotificationCapture, NotificationStream
from .notifications import Notification
from .registry import WebhookRegistry
from .rewriting import RelayAddresses
from .sender import WebhookSender

_MAX_UNANSWERED = 10_000


class SettingExchange(Protocol):
    """An exchange whose request set webhooks."""

    @property
    def is_closed(self) -> bool:
        """Whether its client has left and its turn is closed, so that no task is awaited any more."""
        ...

    def notified(self, task_id: str) -> None:
        """Report that one of its webhooks was notified of this task."""


class NotRelayedError(Exception):
    """A webhook stays as it is in the request; the message says why."""


class PushRelay:
    """Gives webhooks addresses of the proxy, and knows what arrives there. Belongs to one event loop."""

    def __init__(
        self,
        registry: WebhookRegistry,
        capture: NotificationCapture,
        *,
        push_url: str,
        targets: Collection[str],
        check_every_s: float,
    ) -> None:
        """`targets`: what clients may register (`WebhookTargets`). `check_every_s`: time between two searches for
        webhooks that have ended."""
        self.push_url = push_url
        self._targets = WebhookTargets(targets or (PUBLIC,))
        self.addresses = RelayAddresses(push_url)
        self._check_every_s = check_every_s
        self.registry = registry
        self.capture = capture
        self.sender = WebhookSender(self._targets)
        self._unanswered: Recent[str, SettingExchange] = Recent(_MAX_UNANSWERED)
        """By webhook: the exchange that set it, where no response has named its task; the latest ones."""

    def check_targets(self, wanted: Iterable[NewWebhook]) -> None:
        """Raises ValueError for a webhook to which the proxy does not send."""
        for one in wanted:
            self._targets.check(one.url)

    async def registered(self, wanted: Collection[NewWebhook], task_id: str, *, asked: bool) -> list[Webhook]:
        """Keep the webhooks that a request sets; `task_id` is "" where it names none. Raises NotRelayedError."""
        try:
            webhooks = await self.registry.register(wanted, asked=asked, task_id=task_id, now=CLOCK.now())
        except StoreError as error:
            raise NotRelayedError(f"it could not be stored: {error}") from error
        if task_id and webhooks:
            self.capture.tasks.add(task_id)
        return webhooks

    def set_by(self, webhooks: Iterable[Webhook], exchange: SettingExchange) -> None:
        """`exchange` set these webhooks; a notification that comes before its response names its task."""
        for webhook in webhooks:
            self._unanswered[webhook.webhook_id] = exchange

    def answered(self, webhooks: Iterable[Webhook]) -> None:
        """The request that set these webhooks is over: see `set_by`."""
        for webhook in webhooks:
            self._unanswered.pop(webhook.webhook_id, None)

    async def restored(self, body: bytes) -> bytes:
        """JSON of a response or a notification with the clients' own URLs. Raises StoreError."""
        urls = await self.own_urls(body)
        return self.addresses.restored(body, urls) if urls else body

    async def own_urls(self, body: bytes) -> dict[str, str]:
        """The clients' own URLs of the addresses in JSON, by the id of their webhook. Raises StoreError."""
        urls = {}
        for webhook_id in dict.fromkeys(self.addresses.ids_in(body)):
            url = await self.registry.url(webhook_id)
            if url is not None:
                urls[webhook_id] = url
        return urls

    def learn_tasks(self, webhooks: Iterable[Webhook], task_ids: Iterable[str]) -> None:
        """The response to a request with webhooks has named its task."""
        for task_id in list(task_ids)[:1]:
            for webhook in webhooks:
                if not webhook.task_key:
                    self.registry.belongs_to(webhook.webhook_id, task_id)
                    self.capture.tasks.add(task_id)

    def not_expected(self, webhooks: Iterable[Webhook]) -> None:
        """The agent has refused these webhooks, or their task has ended: no further notifications are expected."""
        for webhook in webhooks:
            self.registry.ended(webhook.webhook_id, CLOCK.now())

    def captured(self, webhook: Webhook, notification: Notification) -> NotificationStream:
        """Report a notification to capture, and learn from it which task the webhook has, and that it has ended;
        returns its stream."""
        stream = self.capture.stream(webhook.webhook_id, ended=webhook.task_ended)
        if notification.event is None:
            return stream
        named = task_id_of(notification.event)
        if named and webhook.webhook_id in self._unanswered:
            self._unanswered.pop(webhook.webhook_id).notified(named)
        task_id = self.capture.take(stream, notification.body, notification.event)
        if task_id and not webhook.task_key:
            self.registry.belongs_to(webhook.webhook_id, task_id)
        if task_id and state_of(notification.event) in TERMINAL_STATES:
            self.registry.task_ended(task_id, CLOCK.now())
        return stream

    async def watch(self) -> None:
        """Have turns time out whose webhooks another process has seen the end of, and forget exchanges without a turn.

        Ends by being cancelled.
        """
        while True:
            await asyncio.sleep(self._check_every_s)
            for webhook_id in [one for one, exchange in self._unanswered.items() if exchange.is_closed]:
                del self._unanswered[webhook_id]
            with suppress(StoreError):  # it is tried again
                tasks = self.capture.tasks
                for task_id in await self.registry.without_webhook(list(tasks)):
                    tasks.discard(task_id)
