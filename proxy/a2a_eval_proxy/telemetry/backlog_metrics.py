"""What waits in a shared store, in Prometheus form: asked for now and then, since only the database knows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..store import StoreError

if TYPE_CHECKING:
    from ..store.postgres.work import Backlog

logger = logging.getLogger(__name__)

EVERY_S = 15.0


class BacklogCollector(Collector):
    """Shows the last answer of `ask`; nothing while the database does not answer."""

    def __init__(self, ask: Callable[[], Awaitable[Backlog]]) -> None:
        self._ask = ask
        self._last: Backlog | None = None

    async def watch(self) -> None:
        """Ask every 15 s, until cancelled."""
        while True:
            try:
                self._last = await self._ask()
            except StoreError as error:  # whoever writes there logs that it is away
                self._last = None
                logger.debug("the backlog is not known: %s", error)
            await asyncio.sleep(EVERY_S)

    def collect(self) -> Iterator[Metric]:
        last = self._last
        if last is None:
            return
        for name, text, value in (
            ("pending_turns", "Turns in the shared store that wait to be scored, 100,000 at most", last.turns),
            ("pending_oldest_seconds", "How long the oldest of them has waited", last.oldest_s),
            ("workers", "Workers of the shared store that gave a sign of life within a minute", last.workers),
        ):
            yield GaugeMetricFamily(f"a2a_eval_proxy_{name}", text, value=value)
