"""One round for real: a proxy process between the agent and many clients, then the reckoning."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
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
from .values import ConnectionPlan, Exchange, token_of

PATIENCE_S = 12.0
"""An exchange in which nothing moves for that long, while the proxy is not busy, has no end; no step of a plan waits
for more than two seconds."""

_RESPONSE_TIMEOUT_S = 2
_MAX_GROWTH = 256 * 1024 * 1024
"""Bytes that the proxy may take beyond what it had before the round, at any time in it."""

_SPARE_DESCRIPTORS = 8
_BACK_TO_BASE_S = 60.0
_LOOK_S = 0.2
_TAIL = 1 << 20
_CONTROLS = 3


@dataclass
class Result:
    """What a round found and how it went."""

    findings: list[Finding]
    seconds: float
    exchanges: int
    ends: Counter[str] = field(default_factory=Counter)
    peak_rss: int = 0
    scripts: dict[bytes, str] = field(default_factory=dict)


async def run_round(plan: Round, command: Sequence[str | Path], *, patience_s: float = PATIENCE_S) -> Result:
    """Plays the round against a proxy started with `command`. Ends early at the first finding."""
    started = time.monotonic()
    ledger = Ledger(timed=plan.timed)
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(Agent(ledger, number, plan.agents)) for number in range(plan.agents)]
        urls = [f"http://127.0.0.1:{agent.port}" for agent in agents]
        upstream = urls[0] if plan.agents == 1 else ",".join(f"a{number}={url}" for number, url in enumerate(urls))
        with TemporaryDirectory() as folder:
            proxy = Proxy(upstream, Path(folder) / "turns.db", *_arguments(plan), command=command)
            await asyncio.to_thread(proxy.__enter__)
            try:
                watch = ProxyProcess(proxy)
                for agent in agents:
                    agent.proxy_port = watch.port
                await _play(plan, ledger, watch, patience_s)
                if not ledger.findings:
                    await _control(plan, ledger, watch.port, patience_s)
                    await asyncio.gather(*(agent.watched() for agent in agents))
                await asyncio.gather(*(agent.hang_up() for agent in agents))
                if not ledger.findings:
                    await watch.calm(ledger)
                watch.read_log(ledger)
            finally:
                await asyncio.to_thread(proxy.__exit__, None, None, None)
    findings = ledger.findings or ledger.settle()  # of a round that was broken off not all can be said
    scripts = {token: found.script() for item in findings for token in item.tokens if (found := ledger.exchange(token))}
    return Result(findings, time.monotonic() - started, plan.exchanges, Counter(ledger.ends), watch.peak, scripts)


def _arguments(plan: Round) -> list[str]:
    arguments = ["--no-evaluate", "--limits", "body_bytes=1000000", "--turn-timeout", "2", "--log-level", "warning"]
    if plan.timed:
        arguments += ["--timeouts", f"response={_RESPONSE_TIMEOUT_S}"]
    return arguments


async def _play(plan: Round, ledger: Ledger, watch: ProxyProcess, patience_s: float) -> None:
    """All connections of the plan, as many at once as it says, until the first finding."""
    for connection in plan.connections:
        for batch in connection.batches:
            for item in batch:
                ledger.open(item, stays=connection.stays(batch))
    queue = iter(plan.connections)
    work = {asyncio.create_task(_worker(queue, ledger, watch.port, patience_s)) for _ in range(plan.clients)}
    watching = asyncio.create_task(watch.memory(ledger))
    try:
        while work and not ledger.findings:
            done, work = await asyncio.wait(work, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in (*work, watching):
            task.cancel()
        await asyncio.gather(*work, watching, return_exceptions=True)


async def _worker(queue: Iterator[ConnectionPlan], ledger: Ledger, port: int, patience_s: float) -> None:
    for plan in queue:
        await Client(plan, ledger, port, patience_s).run()


async def _control(plan: Round, ledger: Ledger, port: int, patience_s: float) -> None:
    """Plain requests at the end, which must be answered."""
    await asyncio.sleep(0)
    for number in range(_CONTROLS):
        token = token_of(plan.index, _TAIL + number)
        item: Exchange = exchange(Random(number), token, frozenset(), timed=False, agents=plan.agents)
        ledger.open(item)
        await Client(ConnectionPlan(((item,),)), ledger, port, patience_s).run()


class ProxyProcess:
    """The proxy's process from outside."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.port = httpx.URL(proxy.url).port or 0
        self._base_rss = procfs.rss_bytes(proxy.process_id)
        self._base_descriptors = self._descriptors()
        self.peak = self._base_rss

    def _descriptors(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self._proxy.process_id}/fd").iterdir())

    async def memory(self, ledger: Ledger) -> None:
        """Samples memory until it is cancelled, or too much."""
        while True:
            self.peak = max(self.peak, procfs.rss_bytes(self._proxy.process_id))
            if self.peak - self._base_rss > _MAX_GROWTH:
                grown = (self.peak - self._base_rss) >> 20
                ledger.report(Fault.PROCESS, f"memory grew by {grown} MB")
                return
            await asyncio.sleep(0.2)

    async def calm(self, ledger: Ledger) -> None:
        """Waits until the process has let go of what it held; reports it where it does not."""
        limit = self._base_descriptors + _SPARE_DESCRIPTORS
        deadline = time.monotonic() + _BACK_TO_BASE_S
        while (left := self._descriptors()) > limit:
            if time.monotonic() > deadline:
                message = f"{left} descriptors are open, {self._base_descriptors} were before"
                ledger.report(Fault.PROCESS, message)
                return
            await asyncio.sleep(0.1)
        answer = await asyncio.to_thread(self._proxy.get_text, "/healthz")
        if not answer:
            ledger.report(Fault.PROCESS, "/healthz says nothing")

    def read_log(self, ledger: Ledger) -> None:
        log = self._proxy.stderr()
        at = log.find("Traceback (most recent call last)")
        if at >= 0:
            ledger.report(Fault.PROCESS, f"the log has a traceback:\n{log[max(at - 300, 0) : at + 3000]}")
