"""`/metrics`: instruments in Prometheus form, read when they are asked for."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from a2a_tool_capture import __version__
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from ..memory import ContainerMemory
from ..store import StoreError
from .counters import BACKLOG, BOUNDS_S, CONTAINER, Durations, Instrument, Source

if TYPE_CHECKING:
    from ..store.postgres.work import Backlog

logger = logging.getLogger(__name__)

_ASK_EVERY_S = 15.0


def process_registry(*sources: Source) -> CollectorRegistry:
    """A registry with these and what every process of ours reports: version, memory, descriptors, CPU time."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Instruments((*sources, Source(CONTAINER, ContainerMemory))))
    ProcessCollector(registry=registry)
    return registry


class _Instruments(Collector):
    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("a2a_eval_proxy_build_info", "The version that runs", labels=["version", "python"])
        info.add_metric([__version__, platform.python_version()], 1)
        yield info
        for source in self._sources:
            read = source.read()
            for instrument in source.instruments if read is not None else ():
                if (reading := instrument.reading(read)) is not None:
                    yield _family(instrument, reading)


def _family(instrument: Instrument, reading: Any) -> Metric:
    name = f"a2a_eval_proxy_{instrument.name}"
    if isinstance(reading, Durations):
        bounds = [*map(str, BOUNDS_S), "+Inf"]
        return HistogramMetricFamily(
            name, instrument.text, [*zip(bounds, accumulate(reading.counts), strict=True)], reading.total_s
        )
    kind = GaugeMetricFamily if instrument.is_gauge else CounterMetricFamily
    family = kind(name, instrument.text, labels=instrument.labels)
    for key, number in reading.items() if instrument.labels else [((), reading)]:
        family.add_metric([*map(str, key if isinstance(key, tuple) else (key,))], number)
    return family


class BacklogWatch:
    """Asks a shared store now and then what waits there, since only the database knows."""

    def __init__(self, ask: Callable[[], Awaitable[Backlog]]) -> None:
        self._ask = ask
        self._last: Backlog | None = None
        self.source = Source(BACKLOG, lambda: self._last)
        """Exposes the last answer; nothing while the database does not answer."""

    async def watch(self) -> None:
        """Ask every 15 s, until cancelled."""
        while True:
            try:
                self._last = await self._ask()
            except StoreError as error:  # whoever writes there logs that it is away
                self._last = None
                logger.debug("the backlog is not known: %s", error)
            await asyncio.sleep(_ASK_EVERY_S)
