"""What is known of the agent's card: whether it declares the extension. Kept fresh by a short TTL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..net.http_client import UpstreamError, UpstreamTimeoutError
from ..protocol.agent_card import ApiKey, declared_api_keys, declared_uris
from ..protocol.operations import CARRIES_TASKS, A2ARequest

logger = logging.getLogger(__name__)

Fetch = Callable[[], Awaitable[Any]]


class Negotiation:
    """Decides whether a request gets the extension's header.

    `mode` is `declared` (if the card declares it), `always` or `never`. `fetch` gets the card (decoded JSON) and
    raises UpstreamError, ValueError or TimeoutError where there is none. Stale knowledge is used while it is
    refreshed beside the traffic; only while nothing is known do requests wait, at most `first_wait_s`, and no more
    once an agent let one wait in vain.
    """

    def __init__(self, mode: str, fetch: Fetch, *, ttl_s: float = 30.0, first_wait_s: float = 2.0) -> None:
        self._mode = mode
        self._fetch = fetch
        self._ttl_s = ttl_s
        self._first_wait_s = first_wait_s
        self._known_until = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._waited_in_vain = False
        self._given_up = False
        self.declared = False
        """Whether the card, when last seen, declared a version of the extension."""
        self.known = False
        """Whether a card was ever seen."""
        self.api_keys: frozenset[ApiKey] = frozenset()
        """What the card, when last seen, said of API keys."""

    def learn(self, card: Any, now: float) -> None:
        """A card went by, or was fetched. `now` is monotonic seconds."""
        self.declared = bool(declared_uris(card))
        self.known = True
        self.api_keys = declared_api_keys(card)
        self._known_until = now + self._ttl_s

    def stale(self, now: float) -> bool:
        return now >= self._known_until

    def refresh(self, now: float) -> asyncio.Task[None]:
        """Fetch the card beside the traffic; the running fetch if there is one."""
        if self._refreshing is None or self._refreshing.done():
            self._known_until = now + min(1.0, self._ttl_s)  # one try a second while the agent is down
            self._refreshing = asyncio.get_running_loop().create_task(self._load())
        return self._refreshing

    def undecided(self, now: float) -> bool:
        """Whether nothing is known yet, and a card may be about to come."""
        return not (self.known or self._waited_in_vain) and (
            self.stale(now) or (self._refreshing is not None and not self._refreshing.done())
        )

    async def wait_first(self, now: float) -> None:
        """Before the very first request: learn whether the card declares the extension."""
        _, waiting = await asyncio.wait({self.refresh(now)}, timeout=self._first_wait_s)
        if waiting:
            self._waited_in_vain = True

    def stop_asking(self, reason: str) -> None:
        """Ask no more: the agent answers in a way that nobody here can read."""
        if not self._given_up:
            self._given_up = True
            logger.error("the agent is not asked for tool calls any more, until the proxy is started again: %s", reason)

    def wants_extension(self) -> bool:
        if self._given_up:
            return False
        return self._mode == "always" or (self._mode == "declared" and self.declared)

    def asks(self, request: A2ARequest | None) -> bool:
        """Whether the agent is asked for the extension in `request` (None: one that could not be read).

        Only where the answer is read and guarded. What the agent sends to a webhook is not: there the tool calls of a
        request that asks would arrive.
        """
        if request is None or not self.wants_extension():
            return False
        return request.operation in CARRIES_TASKS and not request.has_webhook

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _load(self) -> None:
        try:
            card = await self._fetch()
        except (UpstreamError, ValueError, TimeoutError, RecursionError) as error:
            logger.debug("agent card not available: %s", error)
            if not isinstance(error, TimeoutError | UpstreamTimeoutError):
                self._waited_in_vain = False  # it answers, or refuses, at once: it may have been started again
            return
        self.learn(card, asyncio.get_running_loop().time())
