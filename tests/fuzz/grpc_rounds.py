"""One round over gRPC: a proxy process between the agent and many clients, then what the process shows from outside."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc.aio
from support.proxy import Proxy

from .grpc_calls import AT_ONCE, FuzzAgent, faults
from .ledger import Fault, Finding, Ledger
from .rounds import ProxyProcess, Result

_SETTLE_S = 30.0
_COUNTS = re.compile(r"^a2a_eval_proxy_(requests|responses)_total(?:\{[^}]*\})? (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class GrpcRound:
    """Random calls, which seed and number of the round determine, many at a time."""

    seed: int
    index: int
    calls: int = 500
    timed: bool = False

    @property
    def clients(self) -> int:
        return AT_ONCE


async def run_grpc_round(plan: GrpcRound, command: Sequence[str | Path]) -> Result:
    """Plays the round against a proxy started with `command`."""
    started = time.monotonic()
    ledger, agent, server = Ledger(), FuzzAgent(), grpc.aio.server()
    server.add_generic_rpc_handlers((agent,))
    upstream = f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    arguments = ("--grpc", "127.0.0.1:0", "--negotiate", "always", "--no-evaluate", "--log-level", "warning")
    with TemporaryDirectory() as folder:
        proxy = Proxy(upstream, Path(folder) / "turns.db", *arguments, command=command)
        await asyncio.to_thread(proxy.__enter__)
        try:
            watch = ProxyProcess(proxy)
            watching = asyncio.create_task(watch.memory(ledger))
            found = await faults(plan.seed * 1_000 + plan.index, plan.calls, proxy.grpc_address or "", agent)
            watching.cancel()
            ledger.findings += [Finding(Fault.GRPC, fault) for fault in found]
            if not found:
                await _all_ended(proxy, ledger)
                await watch.calm(ledger)
            watch.read_log(ledger)
        finally:
            await asyncio.to_thread(proxy.__exit__, None, None, None)
            await server.stop(0)
    return Result(ledger.findings, time.monotonic() - started, plan.calls, peak_rss=watch.peak)


async def _all_ended(proxy: Proxy, ledger: Ledger) -> None:
    """Waits until every call has ended in the proxy; reports it where one has not."""
    deadline = time.monotonic() + _SETTLE_S
    while (open_calls := _open_calls(await asyncio.to_thread(proxy.get_text, "/metrics"))) != 0:
        if time.monotonic() > deadline:
            ledger.report(Fault.GRPC, f"{open_calls} calls are open in the proxy, whose clients have all left")
            return
        await asyncio.sleep(0.05)


def _open_calls(metrics: str) -> int:
    """Calls that began and have not ended."""
    counts = {"requests": 0, "responses": 0}
    for name, count in _COUNTS.findall(metrics):
        counts[name] += int(count)
    return counts["requests"] - counts["responses"]
