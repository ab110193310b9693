"""The fuzzer of all ports: `make fuzz`, or `make fuzz ARGS="--minutes 30 --seed 7"`.

Rounds of many clients with the proxy as a process between them and their agent, by turns of these kinds: `hostile`
peers over HTTP; `differential` exchanges, each also without the proxy; `octets` at every port; `push` notifications;
several `agents` with the same ids, which come and go.
Prints the seed, a line for each round, and for a finding what both sides did. The exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from support.proxy import COMMAND

from . import plants
from .agents_rounds import AgentsRound, run_agents_round
from .differential.rounds import DifferentialRound, run_differential_round
from .octets.rounds import OctetsRound, run_octets_round
from .octets.seeds import PORTS
from .plan import BEHAVIOURS, Round, round_of
from .plants import PLANTS
from .push_plan import PushRound, push_round_of
from .push_rounds import run_push_round
from .rounds import PATIENCE_S, Result, run_round

_SEEDS = 1_000_000
_PLANT_FOUND_WITHIN_S = 120
_KINDS = {
    "hostile": "clients",
    "differential": "clients, directly and through the proxy",
    "octets": "connections to ports at once",
    "push": "webhooks at once",
    "agents": "clients of several agents",
}
"""The kinds of rounds, and who takes part."""

AnyRound = Round | DifferentialRound | OctetsRound | PushRound | AgentsRound


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 without a finding, 1 with one."""
    options = _parse(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(_SEEDS)
    if options.planted is not None:
        return asyncio.run(_find_plants(options.planted or list(PLANTS), seed, options))
    return asyncio.run(_fuzz(options, seed))


async def _fuzz(options: argparse.Namespace, seed: int) -> int:
    print(f"seed {seed}, {options.minutes:g} minutes, {options.proxy}", flush=True)
    started = time.monotonic()
    exchanges = found = 0
    ends: Counter[str] = Counter()
    index = options.round or 0
    while True:
        for kind in _kinds(options, index):
            plan, result = await _play(options, seed, index, [options.proxy], kind)
            exchanges += result.exchanges
            found += bool(result.findings)
            ends.update({f"{kind}: {end}": count for end, count in result.ends.items()})
            print(_line(kind, plan, result), flush=True)
            if result.findings:
                print(told(kind, plan, result, time.monotonic() - started), flush=True)
        index += 1
        over = time.monotonic() - started > options.minutes * 60 or options.round is not None
        if over or (result.findings and not options.keep_going):
            break
    print(", ".join(f"{count} {end}" for end, count in sorted(ends.items())))
    print(f"{exchanges} exchanges in {time.monotonic() - started:.0f} s, rounds with findings: {found}")
    return 1 if found else 0


def _kinds(options: argparse.Namespace, index: int) -> Sequence[str]:
    """The rounds of this number."""
    if options.kind:
        return options.kind  # type: ignore[no-any-return]
    if options.only or options.round is not None:
        return ("hostile",)
    return ("hostile", "differential", "push" if index % 2 else "octets", "agents")


async def _play(
    options: argparse.Namespace, seed: int, index: int, command: Sequence[str | Path], kind: str
) -> tuple[AnyRound, Result]:
    if kind == "differential":
        # every third proxy does not ask
        exchanges = DifferentialRound(seed, index, connections=options.connections, negotiates=index % 3 != 2)
        return exchanges, await run_differential_round(exchanges, command)
    if kind == "octets":
        octets = OctetsRound(seed, index, tuple(options.ports))
        return octets, await run_octets_round(octets, command)
    if kind == "push":
        webhooks = push_round_of(seed, index, webhooks=options.connections)
        return webhooks, await run_push_round(webhooks, command)
    if kind == "agents":
        several = AgentsRound(seed, index)
        return several, await run_agents_round(several, command)
    agents = 1 if index % 3 else 5  # in every third round there are several
    only = frozenset(options.only)
    plan = round_of(seed, index, connections=options.connections, only=only, agents=agents)
    return plan, await run_round(plan, command, patience_s=options.patience)


async def _find_plants(names: list[str], seed: int, options: argparse.Namespace) -> int:
    """Each planted fault on its own: how long until the fuzzer finds something. 1 where one stays hidden."""
    hidden = 0
    for name in names:
        command = [sys.executable, Path(plants.__file__), name]
        kind = PLANTS[name].kind
        started = time.monotonic()
        for index in itertools.count():
            plan, result = await _play(options, seed, index, command, kind)
            seconds = time.monotonic() - started
            if result.findings or seconds > _PLANT_FOUND_WITHIN_S:
                break
        hidden += not result.findings or seconds > _PLANT_FOUND_WITHIN_S
        told = f"{result.findings[0].fault}: {result.findings[0].message[:160]}" if result.findings else "NOT FOUND"
        print(
            f"{name} ({PLANTS[name].what})\n  after {seconds:.0f} s, round {plan.index} of seed {seed}: {told}",
            flush=True,
        )
    print(f"{len(names) - hidden} of {len(names)} planted faults found within {_PLANT_FOUND_WITHIN_S} s")
    return 1 if hidden else 0


def _line(kind: str, plan: AnyRound, result: Result) -> str:
    ends = ", ".join(f"{count} {end}" for end, count in sorted(result.ends.items()))
    timed = ", timed" if plan.timed else ""
    peak = result.peak_rss >> 20
    return f"round {plan.index}: {plan.clients} {_KINDS[kind]}{timed}, {result.seconds:.1f} s, peak {peak} MB: {ends}"


def told(kind: str, plan: AnyRound, result: Result, seconds: float) -> str:
    """The findings of a round, how to play it again, and what both sides of the exchanges did."""
    again = f"--seed {plan.seed} --round {plan.index} --kind {kind}"
    lines = [f"FOUND after {seconds:.0f} s: to play the round again, {again}"]
    for finding in result.findings[:5]:
        lines.append(f"{finding.fault}: {finding.message}")
        lines += [result.scripts[token] for token in finding.tokens[:4] if token in result.scripts]
    if len(result.findings) > 5:
        lines.append(f"... and {len(result.findings) - 5} findings more")
    return "\n".join(lines)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long; default 3")
    parser.add_argument("--seed", type=int, help="to repeat a run; default: another each time")
    parser.add_argument("--round", type=int, help="only this round of the seed")
    parser.add_argument("--connections", type=int, default=120, help="client connections in a round")
    parser.add_argument("--only", nargs="*", default=[], choices=BEHAVIOURS, metavar="BEHAVIOUR", help="only these")
    parser.add_argument("--kind", nargs="*", choices=_KINDS, metavar="KIND", help="only rounds of these kinds")
    parser.add_argument(
        "--ports", nargs="*", default=PORTS, choices=PORTS, metavar="PORT", help="of `octets`; default all"
    )
    parser.add_argument("--keep-going", action="store_true", help="continue after a finding")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds without a byte that are a hang")
    parser.add_argument("--planted", nargs="*", choices=PLANTS, metavar="FAULT", help="find planted faults, each alone")
    parser.add_argument("--proxy", type=Path, default=COMMAND, help="the a2a-eval-proxy to test")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
