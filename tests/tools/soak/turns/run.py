"""One soak of planned conversations: agent, proxies, clients, kills, and the verdict on what is stored."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import httpx
from support.patience import PATIENCE_S
from tools.bench import procfs

from .clients import Agent, Hooks, Record, World, converse
from .judge import Kill, Stored, Truth, Verdict, excuses, judge
from .plan import NUMBERS_PER_CONVERSATION, Conversation
from .proxies import Proxies, receiving, running_agent

QUIET_WITHIN_S = 20.0
"""How long the store may take to close what has ended: longer than any wait that the documents name."""

TAKEN_OVER_WITHIN_S = 16.0
"""How long it may take until others have folded the tasks of a killed proxy: proxy/docs/storage.md says 8 s without a
sign of life; then they are searched for."""

KILLS = 4

LONG_S = 600.0
"""From here on the load is long enough for caches and allocators to be full after its first third."""

_MORE_ALLOWED = {"memory (MB)": (0.05, 6.0), "descriptors": (0.5, 10.0)}
"""By which share of the middle third, or else how much, the last third of a long load may be above it."""


@dataclass(frozen=True)
class Outcome:
    """What was sent, executed and stored, and what is wrong with it. `log` is the proxies' standard error."""

    records: list[Record]
    truths: list[Truth]
    stored: list[Stored]
    verdict: Verdict
    log: str
    seconds: float
    """Of the load."""
    kills: int
    growth: list[str]
    """What grew in a long load, as sentences."""

    @property
    def is_right(self) -> bool:
        """Nothing is wrong, but what a kill explains and a finding declares."""
        charges = self.verdict.charges
        return (
            all(charge.declared for charge in charges)
            and (not charges or self.kills > 0)
            and "Traceback" not in self.log
            and not self.growth
        )


async def soak(
    planned: Sequence[Conversation], count: int, folder: Path, *, seed: int, clients: int, kill: bool
) -> Outcome:
    """Carries out the conversations, several at once, and judges. `folder` is an empty one for stores.

    `count`: of proxies; several share a PostgreSQL. `kill`: one is killed a few times in the middle.
    """
    async with AsyncExitStack() as stack:
        agent = stack.enter_context(running_agent())
        hooks, proxies = Hooks(), Proxies(count, folder)
        url = await stack.enter_async_context(receiving(hooks, proxies.push_ports, seed))
        hooks.url = url
        proxies.before(*agent, push_url=f"{url}/push")
        await asyncio.to_thread(stack.enter_context, proxies)
        unkept = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        http = httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=unkept)
        world = World(proxies.entrances, await stack.enter_async_context(http), Agent(agent[0]), hooks, seed)
        stack.push_async_callback(world.agent.close)
        began = time.monotonic()
        kills: list[Kill] = []
        killing = partial(_kill, proxies, world, Random(f"{seed}/kills"), kills)
        samples: dict[str, list[float]] = {name: [] for name in _MORE_ALLOWED}
        sampling = asyncio.create_task(_sample(proxies, samples))
        records = await _load(planned, world, clients, killing if kill else None)
        sampling.cancel()
        seconds = time.monotonic() - began
        if kills:
            await asyncio.sleep(max(0.0, kills[-1].until + TAKEN_OVER_WITHIN_S - time.monotonic()))
        turns = await _quiet(proxies)
        truths = _truths(records, await world.agent.log(), kills)
        stored = [Stored.of(turn) for turn in turns]
        verdict = judge(truths, stored)
        growth = [*growing(samples)] if seconds > LONG_S and not kill else []
        return Outcome(records, truths, stored, verdict, proxies.stderr(), seconds, len(kills), growth)


async def _sample(proxies: Proxies, samples: dict[str, list[float]]) -> None:
    """What the proxies take together, once a second, until it is cancelled."""
    while True:
        with suppress(OSError):  # one is away
            processes = proxies.process_ids()
            samples["memory (MB)"].append(sum(map(procfs.rss_bytes, processes)) / 1024**2)
            descriptors = sum(1 for process in processes for _ in Path(f"/proc/{process}/fd").iterdir())
            samples["descriptors"].append(descriptors)
        await asyncio.sleep(1.0)


def growing(samples: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """What has grown between the middle and the last third, by their medians."""
    for name, values in samples.items():
        third, (share, least) = len(values) // 3, _MORE_ALLOWED[name]
        middle, last = median(values[third : 2 * third]), median(values[2 * third :])
        if last - middle > max(share * middle, least):
            yield f"{name}: {middle:.1f} in the middle third, {last:.1f} in the last"


async def _load(
    planned: Sequence[Conversation], world: World, clients: int, killing: Callable[[], Awaitable[None]] | None
) -> list[Record]:
    """All conversations; after equal shares of their turns, something is killed."""
    waiting = iter(planned)
    share = 1 + sum(len(one.turns) for one in planned) // (KILLS + 1)
    records: list[Record] = []
    one_at_a_time = asyncio.Lock()

    async def client() -> None:
        for one in waiting:
            async for record in converse(one, world):
                records.append(record)
                if killing and len(records) % share == 0 and len(records) <= KILLS * share:
                    async with one_at_a_time:
                        await killing()

    await asyncio.gather(*(client() for _ in range(clients)))
    return sorted(records, key=lambda record: record.turn.number)


async def _kill(proxies: Proxies, world: World, dice: Random, kills: list[Kill]) -> None:
    """Kills a proxy, and starts it again; returns when it serves."""
    world.serving.clear()
    since = world.last_kill = time.monotonic()
    number = await asyncio.to_thread(proxies.kill, dice)
    kills.append(Kill(since, time.monotonic(), number))
    await asyncio.to_thread(proxies.restore, number)
    world.last_kill = time.monotonic()
    world.serving.set()


async def _quiet(proxies: Proxies) -> list[dict[str, Any]]:
    """The stored turns, once none is open or `QUIET_WITHIN_S` have passed."""
    until = time.monotonic() + QUIET_WITHIN_S
    while True:
        await asyncio.to_thread(proxies.flush)
        turns = await asyncio.to_thread(proxies.turns)
        unfinished = Counter(turn["status"] for turn in turns if turn["status"] != "done")
        if not unfinished or time.monotonic() > until:
            return turns
        await asyncio.sleep(0.5)


def _truths(records: Sequence[Record], log: dict[str, Any], kills: Sequence[Kill]) -> list[Truth]:
    calls: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for turn, number in log["calls"]:
        calls[turn].append((turn, number))
    truths = []
    for record in records:
        turn, executed = record.turn, str(record.turn.number) in log["ended"]
        made = tuple(calls[turn.number])
        if executed and len(made) != turn.call_count:
            raise AssertionError(f"turn {turn.number}: planned {turn.call_count} calls, executed {made}")
        follows = turn.number % NUMBERS_PER_CONVERSATION > 0
        times = record.began, record.sent, record.ended
        may_be_lost, may_stay_open = excuses(*times, record.entered, kills, follows=follows)
        truths.append(Truth(turn.number, turn.end, made, executed, record.refusal, may_be_lost, may_stay_open))
    return truths
