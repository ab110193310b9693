"""The soak: `make soak`, or `make soak ARGS="--minutes 30"`.

Mixed traffic through `serve` with capture, store and suite: short answers, streams, uploads and cards, clients that
read slowly and clients that leave, and an agent that is killed and comes back. Exit code 0 where every client got its
own answer, or its own error while the agent was away, nothing hung, and memory and descriptors were flat at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import httpx
from support.processes import ChildProcess
from support.proxy import COMMAND, Proxy
from tools.bench import procfs

from .clients import keep_asking
from .judge import Outcome, Tally, descriptor_trend, memory_trend, too_much_memory

_SUITE = "suite: soak\nevaluators: [tool_error]\n"
_AWAY_S = (0.5, 3.0)
_PROGRESS_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make soak", description="Mixed traffic for a long time.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long; default 1, a smoke test")
    parser.add_argument("--clients", type=int, default=16, help="at once; default 16")
    parser.add_argument("--deaths", type=int, default=4, help="of the agent; default 4")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of the traffic")
    parser.add_argument("--proxy", type=Path, default=COMMAND, help="the a2a-eval-proxy to test")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}, {options.minutes:g} minutes, {options.clients} clients, {options.proxy}", flush=True)
    with TemporaryDirectory() as folder:
        return asyncio.run(_soak(options, Path(folder)))


async def _soak(options: argparse.Namespace, folder: Path) -> int:
    (folder / "suite.yaml").write_text(_SUITE)
    agent = _Agent()
    await asyncio.to_thread(agent.start)
    # The turn timeout is the default: what clients leave behind piles up to the limit in bytes, not to the timeout.
    arguments = ("--suite", str(folder / "suite.yaml"), "--log-level", "warning")
    proxy = Proxy(f"http://127.0.0.1:{agent.port}", folder / "turns.db", *arguments, command=[options.proxy])
    await asyncio.to_thread(proxy.__enter__)
    try:
        tally, samples = Tally(), _Samples(proxy.process_id)
        await _run(options, agent, proxy, tally, samples)
        await asyncio.to_thread(proxy.flush)
        return _verdict(tally, samples, proxy, options.minutes * 60)
    finally:
        await asyncio.to_thread(proxy.__exit__, None, None, None)
        agent.kill()


async def _run(options: argparse.Namespace, agent: _Agent, proxy: Proxy, tally: Tally, samples: _Samples) -> None:
    until = time.monotonic() + options.minutes * 60
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=options.clients)
    async with httpx.AsyncClient(base_url=proxy.url, timeout=None, limits=limits, trust_env=False) as http:
        beside = [
            asyncio.create_task(samples.take()),
            asyncio.create_task(_die(agent, tally, Random(options.seed), options.deaths, options.minutes * 60)),
            asyncio.create_task(_report(tally, samples)),
        ]
        try:
            clients = (keep_asking(number, options.seed, http, tally, until) for number in range(options.clients))
            await asyncio.gather(*clients)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)


async def _die(agent: _Agent, tally: Tally, dice: Random, deaths: int, seconds: float) -> None:
    """The agent's deaths, evenly spread, and its returns; all in the first two thirds, so that the end is quiet."""
    for _ in range(deaths):
        await asyncio.sleep(seconds * 2 / 3 / (deaths + 1))
        tally.outages.begin(time.monotonic())
        agent.kill()
        await asyncio.sleep(dice.uniform(*_AWAY_S))
        await asyncio.to_thread(agent.start)
        tally.outages.end(time.monotonic())


async def _report(tally: Tally, samples: _Samples) -> None:
    started = time.monotonic()
    while True:
        await asyncio.sleep(_PROGRESS_S)
        print(f"{time.monotonic() - started:5.0f} s: {_counted(tally)}; {samples.latest()}", flush=True)


class _Agent:
    """The agent's process, which can die and come back on the same port."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._child: ChildProcess | None = None

    def start(self) -> None:
        """Returns when it listens."""
        self._child = ChildProcess([sys.executable, "-m", "tools.soak.agent", str(self.port)])
        self._child.__enter__()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if self._child.process.poll() is not None:
                    raise RuntimeError(f"the agent ended: {self._child.stderr()}") from None
                time.sleep(0.05)

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child = None


class _Samples:
    """Memory and descriptors of the proxy, once a second."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.memory: list[int] = []
        self.descriptors: list[int] = []

    async def take(self) -> None:
        while True:
            self.memory.append(procfs.rss_bytes(self._process))
            self.descriptors.append(sum(1 for _ in Path(f"/proc/{self._process}/fd").iterdir()))
            await asyncio.sleep(1.0)

    def latest(self) -> str:
        return f"{self.memory[-1] >> 20} MB, {self.descriptors[-1]} descriptors" if self.memory else "no sample yet"


def _counted(tally: Tally) -> str:
    sums = {outcome: sum(count for (_, its), count in tally.counts.items() if its is outcome) for outcome in Outcome}
    return ", ".join(f"{count} {outcome}" for outcome, count in sums.items() if count)


def _verdict(tally: Tally, samples: _Samples, proxy: Proxy, seconds: float) -> int:
    complaints = list(tally.complaints)
    print(f"\n{_counted(tally)}, {len(tally.outages.spans)} deaths of the agent")
    for (kind, outcome), count in sorted(tally.counts.items()):
        print(f"  {kind:8} {outcome:9} {count}")
    for trend in (memory_trend(samples.memory, seconds), descriptor_trend(samples.descriptors)):
        line = f"{trend.name}: {trend.middle:.1f} in the middle third, {trend.last:.1f} in the last"
        print(f"{line}; {trend.allowed:.1f} more are allowed")
        if not trend.flat:
            complaints.append(f"{line}: more than {trend.allowed:.1f} above")
    print(f"memory (MB): {max(samples.memory) >> 20} at most")
    complaints += too_much_memory(samples.memory)
    log = proxy.stderr()
    if "Traceback" in log:
        complaints.append(f"the log has a traceback:\n{log[log.index('Traceback') :][:3000]}")
    print(*complaints[:20], sep="\n")
    print(
        "every client got its own, nothing hung, flat at the end" if not complaints else f"{len(complaints)} complaints"
    )
    return 1 if complaints else 0


if __name__ == "__main__":
    raise SystemExit(main())
