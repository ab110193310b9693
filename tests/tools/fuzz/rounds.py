"""One round for real: a proxy process between the agent and many clients, then the reckoning."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import httpx
from support.proxy import Proxy
from tools.bench import procfs

from .agent import Agent
from .clients import Client
from .ledger import Fault, Finding, Ledger
from .plan import Round, exchange
from .values import ConnectionPlan, token_of

PATIENCE_S = 12.0
"""An exchange in which nothing moves for that long, while the proxy is not busy, has no end; no step of a plan waits
for more than two seconds."""

_MAX_GROWTH = 256 * 1024 * 1024
"""Bytes that the proxy may take beyond what it had before the round, at any time in it."""

SHORT_TURNS = ("--turn-timeout", "2")
_BACK_TO_BASE_S = 60.0
_LOOK_S = 0.2
_TAIL = 1 << 20
_CONTROLS = 3
_SPARE_DESCRIPTORS = 8


@dataclass
class Result:
    """What a round found and how it went."""

    findings: list[Finding]
    seconds: float
    exchanges: int
    ends: Counter[str] = field(default_factory=Counter)
    peak_rss: int = 0
    scripts: dict[bytes, str] = field(default_factory=dict)


async def run_round(plan: Round) -> Result:
    """Plays the round. Ends early at the first finding."""
    started = time.monotonic()
    ledger = Ledger()
    async with Agent(ledger) as agent:
        upstream = f"http://127.0.0.1:{agent.port}"
        limits = (*SHORT_TURNS, "--no-evaluate", "--limits", "body_bytes=1000000")
        async with proxy_process(ledger, upstream, *limits) as watch:
            await _play(plan, ledger, watch.port)
            if not ledger.findings:
                await _control(plan, ledger, watch.port)
            await agent.hang_up()
    findings = ledger.findings or ledger.settle()  # of a round that was broken off not all can be said
    scripts = {token: found.script() for item in findings for token in item.tokens if (found := ledger.exchange(token))}
    return Result(findings, time.monotonic() - started, plan.exchanges, Counter(ledger.ends), watch.peak, scripts)


async def _play(plan: Round, ledger: Ledger, port: int) -> None:
    """All connections of the plan, as many at once as it says, until the first finding."""
    for connection in plan.connections:
        for batch in connection.batches:
            for item in batch:
                ledger.open(item, stays=connection.stays(batch))
    queue = iter(plan.connections)
    work = {asyncio.create_task(_worker(queue, ledger, port, plan.patience_s)) for _ in range(plan.clients)}
    try:
        while work and not ledger.findings:
            done, work = await asyncio.wait(work, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _worker(queue: Iterator[ConnectionPlan], ledger: Ledger, port: int, patience_s: float) -> None:
    for plan in queue:
        await Client(plan, ledger, port, patience_s).run()


async def _control(plan: Round, ledger: Ledger, port: int) -> None:
    """Plain requests at the end, which must be answered."""
    for number in range(_CONTROLS):
        item = exchange(Random(number), token_of(plan.index, _TAIL + number), frozenset())
        ledger.open(item)
        await Client(ConnectionPlan(((item,),)), ledger, port, plan.patience_s).run()


class ProxyProcess:
    """The proxy's process from outside."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.port = port_of(proxy.url)
        self._base_rss = procfs.rss_bytes(proxy.process_id)
        self._base_descriptors = self._descriptors()
        self.peak = self._base_rss

    def _descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.proxy.process_id}/fd").iterdir())

    async def memory(self, ledger: Ledger) -> None:
        """Samples memory until it is cancelled, or too much."""
        while True:
            self.peak = max(self.peak, procfs.rss_bytes(self.proxy.process_id))
            if self.peak - self._base_rss > _MAX_GROWTH:
                ledger.report(Fault.PROCESS, f"memory grew by {(self.peak - self._base_rss) >> 20} MB")
                return
            await asyncio.sleep(0.2)

    async def calm(self, ledger: Ledger) -> None:
        """Waits until the process has let go of what it held; reports it where it does not."""
        limit = self._base_descriptors + _SPARE_DESCRIPTORS
        deadline = time.monotonic() + _BACK_TO_BASE_S
        while (left := self._descriptors()) > limit:
            if time.monotonic() > deadline:
                ledger.report(Fault.PROCESS, f"{left} descriptors are open, {self._base_descriptors} were before")
                return
            await asyncio.sleep(0.1)
        if not await asyncio.to_thread(self.proxy.get_text, "/healthz"):
            ledger.report(Fault.PROCESS, "/healthz says nothing")


def port_of(url: str) -> int:
    return httpx.URL(url).port or 0


@asynccontextmanager
async def proxy_process(
    ledger: Ledger, upstream: str, *arguments: str, telemetry: bool = False
) -> AsyncIterator[ProxyProcess]:
    """A `Proxy` with these arguments, watched. At the end, when its peers have gone, it must have let go of all, and
    its log has no traceback."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "turns.db"
        proxy = Proxy(upstream, store, "--log-level", "warning", *arguments, telemetry=telemetry)
        await asyncio.to_thread(proxy.__enter__)
        try:
            watch = ProxyProcess(proxy)
            watching = asyncio.create_task(watch.memory(ledger))
            try:
                yield watch
            finally:
                watching.cancel()
            if not ledger.findings:
                await watch.calm(ledger)
            log = proxy.stderr()
            if (at := log.find("Traceback (most recent call last)")) >= 0:
                ledger.report(Fault.PROCESS, f"the log has a traceback:\n{log[max(at - 300, 0) : at + 3000]}")
        finally:
            await asyncio.to_thread(proxy.__exit__, None, None, None)
