"""One hostile round: a proxy process between the agent and many clients, then the reckoning."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import httpx
from support.proxy import Proxy
from tools.bench import procfs

from .agent import Agent
from .clients import Client
from .ledger import Ledger
from .plan import connections_of, exchange
from .values import ConnectionPlan, token_of, tokens_in

PATIENCE_S = 12.0
"""An exchange in which nothing moves for that long, while the proxy is not busy, has no end; no step of a plan waits
for more than two seconds."""

_MAX_GROWTH = 256 * 1024 * 1024
"""Bytes that the proxy may take beyond what it had before the round, at any time in it."""

SHORT_TURNS = ("--turn-timeout", "2")
_BACK_TO_BASE_S = 60.0
_SPARE_SOCKETS = 8
_LOOK_S = 0.2
_TAIL = 1 << 20
_CONTROLS = 3
_TOLD = 5


async def run_hostile_round(
    seed: int, index: int, connections: int, patience_s: float, findings: list[str]
) -> Counter[str]:
    """Plays the round, and ends early at the first finding. Returns how often exchanges ended in which way."""
    ledger = Ledger(findings)
    plans = connections_of(seed, index, connections)
    clients = Random(f"{seed}/{index}").choice((8, 32, 32, 48))
    async with Agent(ledger) as agent:
        upstream = f"http://127.0.0.1:{agent.port}"
        limits = (*SHORT_TURNS, "--no-evaluate", "--limits", "body_bytes=1000000")
        async with proxy_process(findings, upstream, *limits) as proxy:
            await _play(plans, clients, ledger, port_of(proxy.url), patience_s)
            for number in range(0 if findings else _CONTROLS):  # plain requests at the end, which must be answered
                item = exchange(Random(number), token_of(index, _TAIL + number), frozenset())
                ledger.open(item)
                await Client(ConnectionPlan(((item,),)), ledger, port_of(proxy.url), patience_s).run()
            await agent.hang_up()
    if not findings:  # of a round that was broken off not all can be said
        ledger.settle()
    named = sorted(tokens_in("".join(findings[:_TOLD]).encode()))
    findings[_TOLD:] = [found.script() for token in named if (found := ledger.exchange(token))]
    return ledger.ends


async def _play(plans: list[ConnectionPlan], clients: int, ledger: Ledger, port: int, patience_s: float) -> None:
    """All connections, so many at once, until the first finding."""
    for connection in plans:
        for batch in connection.batches:
            for item in batch:
                ledger.open(item, stays=connection.stays(batch))
    queue = iter(plans)
    work = {asyncio.create_task(_worker(queue, ledger, port, patience_s)) for _ in range(clients)}
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


def port_of(url: str) -> int:
    return httpx.URL(url).port or 0


@asynccontextmanager
async def proxy_process(
    findings: list[str], upstream: str, *arguments: str, telemetry: bool = False
) -> AsyncIterator[Proxy]:
    """A `Proxy` with these arguments, whose memory is watched. At the end, when its peers have gone, it must have let
    go of all sockets, and its log has no traceback."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "turns.db"
        proxy = Proxy(upstream, store, "--log-level", "warning", *arguments, telemetry=telemetry)
        await asyncio.to_thread(proxy.__enter__)
        try:
            before = _sockets(proxy)
            watching = asyncio.create_task(_watch_memory(proxy, findings))
            try:
                yield proxy
            finally:
                watching.cancel()
            try:
                async with asyncio.timeout(_BACK_TO_BASE_S):
                    while not findings and _sockets(proxy) > before + _SPARE_SOCKETS:
                        await asyncio.sleep(0.1)
            except TimeoutError:
                findings.append(f"{_sockets(proxy)} sockets are open, {before} were before")
            log = proxy.stderr()
            if (at := log.find("Traceback (most recent call last)")) >= 0:
                findings.append(f"the log has a traceback:\n{log[max(at - 300, 0) : at + 3000]}")
        finally:
            await asyncio.to_thread(proxy.__exit__, None, None, None)


def _sockets(proxy: Proxy) -> int:
    """How many are open; each thread that reads the store has files, too."""
    return sum(one.is_socket() for one in Path(f"/proc/{proxy.process_id}/fd").iterdir())


async def _watch_memory(proxy: Proxy, findings: list[str]) -> None:
    """Samples memory until it is cancelled, or too much."""
    most = procfs.rss_bytes(proxy.process_id) + _MAX_GROWTH
    while procfs.rss_bytes(proxy.process_id) <= most:
        await asyncio.sleep(0.2)
    findings.append(f"memory grew by more than {_MAX_GROWTH >> 20} MB")
