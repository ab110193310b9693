"""One round of exchanges, each played directly and through a proxy process, with everything compared."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from support.proxy import Proxy

from ..ledger import Fault, Ledger
from ..rounds import SHORT_TURNS, Result, port_of, proxy_process
from ..values import token_of
from . import a2a_scripts, grpc_scripts, plain_scripts
from .allowed import OWN, Case, differences
from .peers import Agent, ConnectionPlan, converse
from .script import Exchange, Seen, Side

_SETTLE_S = 30.0
_COUNTS = re.compile(r"^a2a_eval_proxy_(requests|responses)_total(?:\{[^}]*\})? (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class DifferentialRound:
    """Which exchanges there are, seed and number of the round determine."""

    seed: int
    index: int
    connections: int
    negotiates: bool
    patience_s: float
    """For so long nothing may move in an exchange."""
    clients: int = 16

    def plans(self) -> list[ConnectionPlan]:
        plans, first = [], 0
        for number in range(self.connections):
            dice = Random(f"{self.seed}/{self.index}/differential/{number}")
            plan = _connection(dice, self.index, first)
            first += sum(map(len, plan.batches))
            plans.append(plan)
        return plans


def _connection(dice: Random, index: int, first: int) -> ConnectionPlan:
    count = dice.choice((1, 2, 4, 8))
    tokens = [token_of(index, first + number) for number in range(count)]
    if dice.random() < 0.4:
        calls = [dice.choice((grpc_scripts.call, grpc_scripts.message))(dice, token) for token in tokens]
        return ConnectionPlan("grpc", tuple(_batches(dice, calls)))
    if count > 1 and dice.random() < 0.15:
        pair = a2a_scripts.reading_callers(dice, tokens[0], first)
        return ConnectionPlan("http/1.1", tuple((exchange,) for exchange in pair))
    if dice.random() < 0.2:
        pipelined = [plain_scripts.plain(dice, token, pipelined=True) for token in tokens]
        return ConnectionPlan("http/1.1", (tuple(pipelined),))
    if dice.random() < 0.3:
        kinds = (plain_scripts.plain, a2a_scripts.operation)
        return ConnectionPlan("h2", tuple(_batches(dice, [dice.choice(kinds)(dice, token) for token in tokens])))
    kinds = (plain_scripts.plain, a2a_scripts.operation, a2a_scripts.operation, plain_scripts.refused)
    weights = (8, 6, 6, 1)
    found = [dice.choices(kinds, weights)[0](dice, token) for token in tokens]
    return ConnectionPlan("http/1.1", tuple((exchange,) for exchange in found))


def _batches(dice: Random, exchanges: list[Exchange]) -> Iterator[tuple[Exchange, ...]]:
    while exchanges:
        size = dice.choice((1, 2, 8))
        yield tuple(exchanges[:size])
        exchanges = exchanges[size:]


async def run_differential_round(plan: DifferentialRound) -> Result:
    """Plays the round. `ends` counts the lines that allowed a difference."""
    started = time.monotonic()
    ledger, plans = Ledger(), plan.plans()
    negotiate = "always" if plan.negotiates else "never"
    options = ("--negotiate", negotiate, "--no-evaluate", "--grpc", "127.0.0.1:0", *SHORT_TURNS)
    dice = Random(f"{plan.seed}/{plan.index}/peers")
    async with (
        Agent(dice) as direct,
        Agent(dice) as agent,
        proxy_process(ledger, f"http://127.0.0.1:{agent.port}", *options) as watch,
    ):
        game = _Game(plan, ledger, direct, agent, watch.proxy)
        queue = iter(plans)
        await asyncio.gather(*(game.work(queue) for _ in range(plan.clients)))
        for stray in (*direct.strays, *agent.strays):
            ledger.report(Fault.CROSSED, f"the agent got a request that {stray}")
        if not ledger.findings:
            await _all_ended(watch.proxy, ledger, game.lines["REQ-1"] + game.lines["ERR-7"])
        agent.hang_up()
    count = sum(len(batch) for connection in plans for batch in connection.batches)
    return Result(ledger.findings, time.monotonic() - started, count, game.lines, watch.peak)


async def _all_ended(proxy: Proxy, ledger: Ledger, refused: int) -> None:
    """Waits until every request has ended in the proxy; reports it where one has not.

    The responses to those that the proxy `refused` count, these themselves do not.
    """
    deadline = time.monotonic() + _SETTLE_S
    while (still_open := refused + _still_open(await asyncio.to_thread(proxy.get_text, "/metrics"))) != 0:
        if time.monotonic() > deadline:
            ledger.report(Fault.PROCESS, f"{still_open} requests are open in the proxy, whose clients have all left")
            return
        await asyncio.sleep(0.05)


def _still_open(metrics: str) -> int:
    """Requests that began and have not ended."""
    counts = Counter(requests=0, responses=0)
    for name, count in _COUNTS.findall(metrics):
        counts[name] += int(count)
    return counts["requests"] - counts["responses"]


class _Game:
    def __init__(self, plan: DifferentialRound, ledger: Ledger, direct: Agent, agent: Agent, proxy: Proxy) -> None:
        self._plan = plan
        self._ledger = ledger
        self._direct = direct
        self._agent = agent
        self._ports = {
            "http/1.1": port_of(proxy.url),
            "h2": port_of(proxy.url),
            "grpc": port_of(f"http://{proxy.grpc_address}"),
        }
        self.lines: Counter[str] = Counter()

    async def work(self, queue: Iterator[ConnectionPlan]) -> None:
        for plan in queue:
            if self._ledger.findings:
                return
            await self._play(plan)

    async def _play(self, plan: ConnectionPlan) -> None:
        batches = tuple(_without_own(plan.batches))
        if plan.protocol == "h2":  # directly over HTTP/1.1, since that is what the agent gets
            batches = tuple((exchange,) for batch in batches for exchange in batch)
        direct = ConnectionPlan("grpc" if plan.protocol == "grpc" else "http/1.1", batches)
        port = self._direct.grpc_port if plan.protocol == "grpc" else self._direct.port
        dice = Random(repr(plan.batches[0][0].token))
        wrong = await converse(direct, self._direct, port, dice, self._plan.patience_s)
        for fault in wrong:
            self._ledger.report(Fault.HUNG, f"directly, so that the script is wrong: {fault}")
        wrong = await converse(plan, self._agent, self._ports[plan.protocol], dice, self._plan.patience_s)
        for fault in wrong:
            self._ledger.report(Fault.HUNG, fault)
        if not wrong:
            for batch in plan.batches:
                for exchange in batch:
                    self._compare(exchange, plan.protocol)

    def _compare(self, exchange: Exchange, protocol: str) -> None:
        proxied = self._agent.meetings.pop(exchange.token).seen
        met = self._direct.meetings.pop(exchange.token, None)
        _neutral(proxied[Side.AGENT], self._agent.port, self._agent.grpc_port)
        _neutral(proxied[Side.CLIENT], *self._ports.values())
        seen = met.seen if met is not None else {side: one.copy() for side, one in proxied.items()}
        for one in seen.values():
            _neutral(one, self._direct.port, self._direct.grpc_port)
        case = Case(exchange, protocol, self._plan.negotiates, seen[Side.CLIENT], seen[Side.AGENT], proxied)
        if found := differences(case):
            self._ledger.report(Fault.DIFFERENT, "\n".join([*found, exchange.script()]), exchange.token)
        self.lines.update(case.lines)


def _without_own(batches: Sequence[tuple[Exchange, ...]]) -> Iterator[tuple[Exchange, ...]]:
    """Without what the proxy answers itself."""
    for batch in batches:
        if kept := tuple(exchange for exchange in batch if exchange.own not in OWN):
            yield kept


def _neutral(seen: Seen, *ports: int) -> None:
    """Whoever was asked has the same name."""
    names = [f"127.0.0.1:{port}".encode() for port in ports]
    seen.fields = [(name, _renamed(value, names)) for name, value in seen.fields]


def _renamed(value: bytes, names: list[bytes]) -> bytes:
    for name in names:
        value = value.replace(name, b"(asked)")
    return value
