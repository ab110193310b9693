"""Whether the agent's card declares the extension; the card is fetched again after a short TTL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..net.http_client import UpstreamError, UpstreamTimeoutError
from ..protocol.agent_card import ApiKey, declared_api_keys, declared_uris, stated_version
from ..protocol.operations import CARRIES_TASKS, A2ARequest, Operation

logger = logging.getLogger(__name__)

Fetch = Callable[[], Awaitable[Any]]


class Negotiation:
    """Decides whether a request gets the extension's header.

    `mode` is `declared` (if the card declares it), `always` or `never`. `fetch` returns the card (decoded JSON) and
    raises UpstreamError, ValueError or TimeoutError where it gets none. A stale card is used until its refresh has
    finished. Requests wait for the first card only, at most `first_wait_s`, and no longer once one wait timed out.
    """

    def __init__(
        self,
        mode: str,
        fetch: Fetch,
        *,
        grpc_address: Callable[[Any], str | None] = lambda card: None,
        ttl_s: float = 30.0,
        first_wait_s: float = 2.0,
    ) -> None:
        """`grpc_address` returns HOST:PORT of the gRPC interface that a card names."""
        self._mode = mode
        self._grpc_address = grpc_address
        self._fetch = fetch
        self._ttl_s = ttl_s
        self._first_wait_s = first_wait_s
        self._known_until = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._first_wait_failed = False
        self._stopped = False
        self.wants_extension = mode == "always"
        """Whether the agent is asked for the extension where a request allows it."""
        self.declared = False
        """Whether the last card declared a version of the extension."""
        self.known = False
        """Whether there was a card yet."""
        self.card: Any = None
        """The last card."""
        self._own_card: Any = None
        self._own_card_until = 0.0
        self.identity: dict[str, str] | None = None
        """The name and version that the last card stated; None: it stated no version."""
        self.api_keys: frozenset[ApiKey] = frozenset()
        """The API keys that the last card declared."""
        self.grpc_address: str | None = None
        """`host:port` of the gRPC interface that the last card named."""

    def learn(self, card: Any, now: float) -> None:
        """Take over a card that passed, or was fetched. `now` is monotonic seconds."""
        self.declared = bool(declared_uris(card))
        if self._mode == "declared":
            self.wants_extension = self.declared and not self._stopped
        self.known, self.card = True, card
        self.identity = stated_version(card)
        self.api_keys = declared_api_keys(card)
        self.grpc_address = self._grpc_address(card)
        self._known_until = now + self._ttl_s

    def card_for_all(self, now: float) -> Any:
        """The last card that the proxy itself fetched, not one that a client got with its own credentials; fetched
        again, in the background, if it is old."""
        if now >= self._own_card_until:
            self.refresh(now)
        return self._own_card

    def refresh(self, now: float) -> asyncio.Task[None]:
        """Fetch the card in the background; returns the fetch, which may be running already."""
        if self._refreshing is None or self._refreshing.done():
            self._known_until = now + min(1.0, self._ttl_s)  # one try a second while the agent is down
            self._refreshing = asyncio.get_running_loop().create_task(self._load())
        return self._refreshing

    def undecided(self, now: float) -> bool:
        """Whether there was no card yet, and one may arrive soon."""
        is_loading = self._refreshing is not None and not self._refreshing.done()
        return not (self.known or self._first_wait_failed) and (now >= self._known_until or is_loading)

    async def prepare(self, now: float) -> None:
        """Before a request: refresh the card if it is old; waits only for the very first one, to learn whether it
        declares the extension."""
        if not self.known and self.undecided(now):
            _, waiting = await asyncio.wait({self.refresh(now)}, timeout=self._first_wait_s)
            if waiting:
                self._first_wait_failed = True
        elif now >= self._known_until:
            self.refresh(now)

    def stop_asking(self, reason: str) -> None:
        """Stop asking for the extension: the proxy cannot read how the agent responds."""
        if not self._stopped:
            self._stopped, self.wants_extension = True, False
            logger.error("the agent is not asked for tool calls any more, until the proxy is started again: %s", reason)

    def asks(self, request: A2ARequest | None) -> bool:
        """Whether the proxy asks the agent for the extension in `request` (None: a request that it could not read).

        Only where the proxy reads and filters what the agent sends: its response, and the notifications of a webhook
        that the request sets (`has_webhook`: past the proxy, where tool calls would arrive unfiltered).
        """
        if request is None or not self.wants_extension or request.has_webhook:
            return False
        return request.operation in CARRIES_TASKS or request.operation is Operation.PUSH_CONFIG

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
                self._first_wait_failed = False  # it responds, or refuses, at once: it may have restarted
            return
        now = asyncio.get_running_loop().time()
        self._own_card, self._own_card_until = card, now + self._ttl_s
        self.learn(card, now)
