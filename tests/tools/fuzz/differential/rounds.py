"""One round of exchanges, each played directly and through a proxy process, with everything compared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random

from support.proxy import Proxy

from ..rounds import SHORT_TURNS, port_of, proxy_process
from ..values import token_of
from . import a2a_scripts, grpc_scripts, plain_scripts
from .allowed import Case, differences
from .peers import Agent, ConnectionPlan, converse
from .script import Exchange, Seen, Side

_CLIENTS = 16


def _connection(dice: Random, index: int, first: int) -> ConnectionPlan:
    count = dice.choice((1, 2, 4, 8))
    tokens = [token_of(index, first + number) for number in range(count)]
    if dice.random() < 0.4:
        calls = [dice.choice((grpc_scripts.call, grpc_scripts.message))(dice, token) for token in tokens]
        return ConnectionPlan("grpc", tuple(_batches(dice, calls)))
    if dice.random() < 0.2:
        pipelined = [plain_scripts.plain(dice, token, pipelined=True) for token in tokens]
        return ConnectionPlan("http/1.1", (tuple(pipelined),))
    kinds = (plain_scripts.plain, a2a_scripts.operation)
    if dice.random() < 0.3:
        return ConnectionPlan("h2", tuple(_batches(dice, [dice.choice(kinds)(dice, token) for token in tokens])))
    found = [dice.choices(kinds, (2, 3))[0](dice, token) for token in tokens]
    return ConnectionPlan("http/1.1", tuple((exchange,) for exchange in found))


def _batches(dice: Random, exchanges: list[Exchange]) -> Iterator[tuple[Exchange, ...]]:
    while exchanges:
        size = dice.choice((1, 2, 8))
        yield tuple(exchanges[:size])
        exchanges = exchanges[size:]


async def run_differential_round(
    seed: int, index: int, connections: int, patience_s: float, findings: list[str]
) -> Counter[str]:
    """Plays the round. Returns how many exchanges were compared, by protocol."""
    plans, first = [], 0
    for number in range(connections):
        plan = _connection(Random(f"{seed}/{index}/differential/{number}"), index, first)
        first += sum(map(len, plan.batches))
        plans.append(plan)
    negotiates = index % 3 != 2
    negotiate = "always" if negotiates else "never"
    options = ("--negotiate", negotiate, "--no-evaluate", "--grpc", "127.0.0.1:0", *SHORT_TURNS)
    dice = Random(f"{seed}/{index}/peers")
    async with (
        Agent(dice) as direct,
        Agent(dice) as agent,
        proxy_process(findings, f"http://127.0.0.1:{agent.port}", *options) as proxy,
    ):
        game = _Game(negotiates, 2 * patience_s, findings, direct, agent, proxy)
        queue = iter(plans)
        await asyncio.gather(*(game.work(queue) for _ in range(_CLIENTS)))
        findings += [f"the agent got a request that {stray}" for stray in (*direct.strays, *agent.strays)]
        agent.hang_up()
    return game.ends


class _Game:
    def __init__(
        self, negotiates: bool, patience_s: float, findings: list[str], direct: Agent, agent: Agent, proxy: Proxy
    ) -> None:
        self._negotiates = negotiates
        self._patience_s = patience_s
        self._findings = findings
        self._direct = direct
        self._agent = agent
        self._ports = {
            "http/1.1": port_of(proxy.url),
            "h2": port_of(proxy.url),
            "grpc": port_of(f"http://{proxy.grpc_address}"),
        }
        self.ends: Counter[str] = Counter()

    async def work(self, queue: Iterator[ConnectionPlan]) -> None:
        for plan in queue:
            if self._findings:
                return
            await self._play(plan)

    async def _play(self, plan: ConnectionPlan) -> None:
        batches = plan.batches
        if plan.protocol == "h2":  # directly over HTTP/1.1, since that is what the agent gets
            batches = tuple((exchange,) for batch in batches for exchange in batch)
        direct = ConnectionPlan("grpc" if plan.protocol == "grpc" else "http/1.1", batches)
        port = self._direct.grpc_port if plan.protocol == "grpc" else self._direct.port
        dice = Random(repr(plan.batches[0][0].token))
        wrong = await converse(direct, self._direct, port, dice, self._patience_s)
        self._findings += [f"directly, so that the script is wrong: {fault}" for fault in wrong]
        wrong = await converse(plan, self._agent, self._ports[plan.protocol], dice, self._patience_s)
        self._findings += wrong
        if not wrong:
            for batch in plan.batches:
                for exchange in batch:
                    self._compare(exchange, plan.protocol)

    def _compare(self, exchange: Exchange, protocol: str) -> None:
        proxied = self._agent.meetings.pop(exchange.token).seen
        seen = self._direct.meetings.pop(exchange.token).seen
        _neutral(proxied[Side.AGENT], self._agent.port, self._agent.grpc_port)
        _neutral(proxied[Side.CLIENT], *self._ports.values())
        for one in seen.values():
            _neutral(one, self._direct.port, self._direct.grpc_port)
        case = Case(exchange, protocol, self._negotiates, seen[Side.CLIENT], seen[Side.AGENT], proxied)
        if found := differences(case):
            self._findings += [*found, exchange.script()]
        self.ends[protocol] += 1


def _neutral(seen: Seen, *ports: int) -> None:
    """Whoever was asked has the same name."""
    names = [f"127.0.0.1:{port}".encode() for port in ports]
    seen.fields = [(name, _renamed(value, names)) for name, value in seen.fields]


def _renamed(value: bytes, names: list[bytes]) -> bytes:
    for name in names:
        value = value.replace(name, b"(asked)")
    return value
