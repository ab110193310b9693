"""Who registered which webhook, the address of the proxy that its agent got in place of it, and whose task it has.

What responses and notifications show about webhooks is stored in the background.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TypeVar

from a2a_tool_capture.recent import Recent

from ...body_memory import BodyMemory
from ...capture.turn_book import TurnBook
from ...clock import CLOCK
from ...protocol.headers import DIGESTS
from ...protocol.operations import SETS_WEBHOOKS, A2ARequest, Operation, decode_json
from ...protocol.webhooks import NewWebhook
from ...relay.relayed_exchange import RelayedExchange
from ...relay.webhooks import RefusedWebhookError, RequestedWebhooks, WebhookRequest, Webhooks
from ...relay.wire_log import WireLog
from ...settings.settings import Agent
from ...store import Store, StoreError
from ...store.observations import task_key
from ...store.webhooks import Webhook
from .notifications import is_signed
from .rewriting import RelayAddresses
from .targets import PUBLIC, WebhookTargets

T = TypeVar("T")

logger = logging.getLogger(__name__)

STORE_S = 2.0
"""How long the answer to a question, or a change that has to be made at once, may take."""

_GRACE_S = 3_600.0  # how long a webhook outlives its task: an agent may repeat its last notifications
_EXPIRE_EVERY_S = 600.0

_LONGEST_S = 30 * 86_400.0  # after this time a webhook whose task never ended is given up
_KEPT_URLS, _KEPT_CHARS = 10_000, 1_000
_MAX_UNANSWERED = 10_000


async def _soon(work: Awaitable[T]) -> T:
    """The result of `work`, if it comes within `STORE_S`. Raises StoreError."""
    try:
        async with asyncio.timeout(STORE_S):
            return await work
    except TimeoutError:
        raise StoreError(f"the store did not answer within {STORE_S:g} s") from None


class WebhookRegistry(Webhooks):
    """The webhooks of one agent's clients. What is awaited raises StoreError without an answer in time. Belongs to one
    event loop."""

    book: TurnBook
    bodies: BodyMemory
    wire_log: WireLog | None

    def __init__(self, store: Store, agent: Agent, identifier: Callable[[str], str]) -> None:
        """`identifier` turns the id of a task into that which the store shows."""
        settings = agent.settings
        self.push_url = settings.push_url or ""
        self.addresses = RelayAddresses(self.push_url)
        self.targets = WebhookTargets(settings.push_allow or (PUBLIC,))
        self._agent_name, self._agent_key = agent.name, agent.key
        self.max_body_bytes = settings.limits.body_bytes
        self._table = store.webhooks
        self._identifier = identifier
        self._urls: Recent[str, str] = Recent(_KEPT_URLS)
        """Of the latest webhooks, by their ids: a slow store does not keep their clients from their own URLs."""
        self.unanswered: Recent[str, RelayedExchange] = Recent(_MAX_UNANSWERED)
        """By webhook: the exchange that set it, where no response has named its task; the latest ones."""
        self._look_every_s = settings.turn_timeout / 4
        self._oldest_s = min(_LONGEST_S, math.inf if settings.retain_days is None else settings.retain_days * 86_400)

    # ── requests that set webhooks ──────────────────────────────────────────────────────────────────────

    async def register(self, wanted: Iterable[NewWebhook], *, asked: bool, task_id: str) -> list[Webhook]:
        """Keep webhooks. `asked`: their client requested the extension. Ids are "" where they are not known."""
        task_key = self._key(self._identifier(task_id)) if task_id else ""
        webhooks = []
        for one in wanted:
            config_key = self._key(one.config_id) if one.config_id else ""
            webhook = Webhook(
                secrets.token_urlsafe(24),
                one.url,
                int(asked),
                int(CLOCK.now()),
                task_key,
                config_key,
                agent_name=self._agent_name,
            )
            await _soon(self._table.add(webhook))
            webhooks.append(webhook)
            if len(one.url) <= _KEPT_CHARS:
                self._urls[webhook.webhook_id] = one.url
        return webhooks

    def belongs_to(self, webhook: Webhook, task_id: str) -> None:
        """A response or a notification has named the task of a webhook."""
        if not webhook.task_key:
            self._table.set_task(webhook.webhook_id, self._key(self._identifier(task_id)))

    def not_expected(self, webhook: Webhook) -> None:
        """The agent has refused a webhook, or its task has ended: no further notifications are expected."""
        self._table.end(webhook.webhook_id, int(CLOCK.now()))

    async def have_config_ids(self, config_ids: Mapping[str, str]) -> None:
        """The configurations of webhooks, by their ids, have these ids."""
        for webhook_id, config_id in config_ids.items():
            await _soon(self._table.set_config(webhook_id, self._key(config_id)))

    async def remove(self, task_id: str, config_id: str) -> None:
        task_key = self._key(self._identifier(task_id))
        removed = self._table.remove(task_key, self._key(config_id))
        if config_id == task_id:  # a2a-sdk's id for a configuration that its client gave none
            removed = self._table.remove(task_key, "")
        await _soon(removed)

    async def begin(self, exchange: RelayedExchange, asked: RequestedWebhooks) -> WebhookRequest | None:
        request, unclear = asked.request, asked.unclear
        if asked.wanted and (request is None or request.operation not in SETS_WEBHOOKS):
            unclear = unclear or "it is no request of A2A that the proxy knows"
        if unclear:
            raise RefusedWebhookError(f"the proxy cannot tell which webhook the request sets: {unclear}")
        if request is None or not request.has_webhook:
            return None
        relayed = RelayedRequest(self, exchange, request, asked)
        await relayed.prepare()
        return relayed

    # ── the proxy's addresses in bodies ─────────────────────────────────────────────────────────────────

    def may_show(self, data: bytes) -> bool:
        return self.addresses.may_be_in(data)

    async def restored(self, body: bytes) -> bytes:
        urls = await self._own_urls(body)
        return self.addresses.restored(body, urls) if urls else body

    async def restoring(self, body: bytes) -> Callable[[str], str] | None:
        urls = await self._own_urls(body)
        return partial(self.addresses.restored_text, urls=urls) if urls else None

    async def _own_urls(self, body: bytes) -> dict[str, str]:
        """The clients' own URLs of the addresses in JSON, by the id of their webhook; none while the store is away."""
        urls = {}
        for webhook_id in dict.fromkeys(self.addresses.ids_in(body)):
            url = self._urls.get(webhook_id)
            try:
                if url is None and (webhook := await self.get(webhook_id)) is not None:
                    url = webhook.url
            except StoreError as error:
                logger.warning("the proxy's address is shown in place of a webhook's: %s", error)
                return {}
            if url is not None:
                urls[webhook_id] = url
        return urls

    # ── notifications ───────────────────────────────────────────────────────────────────────────────────

    async def get(self, webhook_id: str) -> Webhook | None:
        """The webhook, if it is one of this agent."""
        webhook = await _soon(self._table.get(webhook_id))
        return None if webhook is None or webhook.agent_name != self._agent_name else webhook

    def names(self, webhook: Webhook, task_id: str) -> None:
        """A notification names its task; its request may have no answer yet."""
        if webhook.webhook_id in self.unanswered:
            self.unanswered.pop(webhook.webhook_id).notified(task_id)
        self.belongs_to(webhook, task_id)

    def task_ended(self, task_id: str) -> None:
        self._table.task_ended(self._key(self._identifier(task_id)), int(CLOCK.now()))

    async def keeps_open(self, stored_task_id: str) -> bool:
        """Whether notifications of a task, whose id is as in the store, may still arrive."""
        return await _soon(self._table.has_active(self._key(stored_task_id)))

    # ── in the background ───────────────────────────────────────────────────────────────────────────────

    def receive(self, book: TurnBook, bodies: BodyMemory, wire_log: WireLog | None) -> None:
        self.book, self.bodies, self.wire_log = book, bodies, wire_log

    def start(self, stack: AsyncExitStack) -> None:
        stack.callback(asyncio.get_running_loop().create_task(self._watch()).cancel)

    async def expire(self, now: float) -> None:
        """Delete webhooks of tasks that have ended, those older than a month, and those of the agent from before the
        turns that are kept."""
        await self._table.expire(now - _GRACE_S, now - _LONGEST_S, now - self._oldest_s, self._agent_name)

    async def _watch(self) -> None:
        """Delete what is not used any more, and forget exchanges without a turn. Ends by being cancelled."""
        loop = asyncio.get_running_loop()
        expires_at = loop.time() + _EXPIRE_EVERY_S
        while True:
            await asyncio.sleep(min(self._look_every_s, _EXPIRE_EVERY_S))
            for webhook_id in [one for one, exchange in self.unanswered.items() if exchange.is_closed]:
                del self.unanswered[webhook_id]
            with suppress(StoreError):  # it is tried again
                if loop.time() >= expires_at:
                    await self.expire(CLOCK.now())
                    expires_at = loop.time() + _EXPIRE_EVERY_S

    def _key(self, text: str) -> str:
        return task_key(self._agent_key, text)


class RelayedRequest(WebhookRequest):
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
            for one in asked.wanted:
                self._registry.targets.check(one.url)
        except ValueError as error:
            raise RefusedWebhookError(str(error)) from None
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
            for webhook in self._webhooks:
                self._registry.unanswered[webhook.webhook_id] = exchange
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
        exchange, registry = self._exchange, self._registry
        if self._request.operation is Operation.PUSH_CONFIG:
            over = self.refused
        else:  # a response without a task is an error or a Message: nothing follows
            over = complete and exchange.unreadable is None and (exchange.task_over or not exchange.task_ids)
        for webhook in self._webhooks:
            if not exchange.awaits_notification:
                registry.unanswered.pop(webhook.webhook_id, None)
            for task_id in exchange.task_ids[:1]:
                registry.belongs_to(webhook, task_id)
            if over:
                registry.not_expected(webhook)
