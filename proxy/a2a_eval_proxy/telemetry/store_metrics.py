"""How the store does, in Prometheus form for the admin API."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..store import StoreHealth


class StoreCollector(Collector):
    """Renders the health of a store that is written to, as it is at that moment."""

    def __init__(self, health: StoreHealth) -> None:
        self._health = health

    def collect(self) -> Iterator[Metric]:
        health = self._health
        for name, text, value in (
            ("up", "1 where the store took the last write, 0 where it cannot be written", int(not health.problem)),
            ("waiting_turns", "Turns in memory that wait to be written", health.waiting_turns),
            ("waiting_bytes", "Memory of all that waits to be written", health.waiting_bytes),
        ):
            yield GaugeMetricFamily(f"a2a_eval_proxy_store_{name}", text, value=value)
        if health.last_write_at is not None:
            yield GaugeMetricFamily(
                "a2a_eval_proxy_store_last_write_timestamp_seconds", "When it last took a write", health.last_write_at
            )
        for name, text, value in (
            ("writes", "Groups of turns and results that the store took", health.writes),
            ("failures", "Attempts to open or write the store that failed", health.failed_writes),
            ("replaced", "Times that the store's file was damaged or gone and was made again", health.replaced),
        ):
            yield CounterMetricFamily(f"a2a_eval_proxy_store_{name}", text, value=value)
