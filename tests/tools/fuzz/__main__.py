"""The fuzzer of all ports: `make fuzz`, or `make fuzz ARGS="--minutes 30 --seed 7"`.

Rounds of many clients with the proxy as a process between them and their agent, by turns of these kinds: `hostile`
peers over HTTP; `differential` exchanges, each also without the proxy; `octets` at every port.
Prints the seed, a line for each round, and for a finding what both sides did. The exit code is 1 where there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .differential.rounds import DifferentialRound, run_differential_round
from .octets.rounds import OctetsRound, run_octets_round
from .plan import BEHAVIOURS, round_of
from .rounds import PATIENCE_S, Result, run_round

SEEDS = 1_000_000


class Kind(NamedTuple):
    """Rounds of one kind: who takes part, how one of a seed and a number is planned, and how it is played."""

    who: str
    planned: Callable[[int, int, argparse.Namespace], Any]
    run: Callable[..., Awaitable[Result]]


KINDS: Mapping[str, Kind] = {
    "hostile": Kind(
        "clients",
        lambda seed, index, options: round_of(
            seed, index, connections=options.connections, only=frozenset(options.only), patience_s=options.patience
        ),
        run_round,
    ),
    "differential": Kind(  # every third proxy does not ask
        "clients, directly and through the proxy",
        lambda seed, index, options: DifferentialRound(
            seed, index, options.connections, negotiates=index % 3 != 2, patience_s=2 * options.patience
        ),
        run_differential_round,
    ),
    "octets": Kind(
        "connections to ports at once",
        lambda seed, index, options: OctetsRound(seed, index, options.connections),
        run_octets_round,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 without a finding, 1 with one."""
    options = parse(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(SEEDS)
    return asyncio.run(_fuzz(options, seed))


async def _fuzz(options: argparse.Namespace, seed: int) -> int:
    print(f"seed {seed}, {options.minutes:g} minutes", flush=True)
    started = time.monotonic()
    exchanges = 0
    index = options.round or 0
    while True:
        for kind in _kinds(options, index):
            told, result = await play(kind, seed, index, options)
            exchanges += result.exchanges
            print(told, flush=True)
            if result.findings:
                return 1
        index += 1
        if time.monotonic() - started > options.minutes * 60 or options.round is not None:
            break
    print(f"{exchanges} exchanges in {time.monotonic() - started:.0f} s, nothing found")
    return 0


def _kinds(options: argparse.Namespace, index: int) -> Sequence[str]:
    """The rounds of this number."""
    if options.only:
        return ("hostile",)
    return options.kind or KINDS


async def play(kind: str, seed: int, index: int, options: argparse.Namespace) -> tuple[str, Result]:
    """Play one round; what there is to tell of it: findings, how to play it again, and what both sides did."""
    plan = KINDS[kind].planned(seed, index, options)
    result = await KINDS[kind].run(plan)
    ends = ", ".join(f"{count} {end}" for end, count in sorted(result.ends.items()))
    about = f"{result.seconds:.1f} s, peak {result.peak_rss >> 20} MB"
    lines = [f"round {index}: {plan.clients} {KINDS[kind].who}, {about}: {ends}"]
    if result.findings:
        lines.append(f"FOUND: to play the round again, --seed {seed} --round {index} --kind {kind}")
    for finding in result.findings[:5]:
        lines.append(f"{finding.fault}: {finding.message:.3000}")
        lines += [result.scripts[token] for token in finding.tokens[:4] if token in result.scripts]
    if len(result.findings) > 5:
        lines.append(f"... and {len(result.findings) - 5} findings more")
    return "\n".join(lines), result


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=3.0, help="how long; default 3")
    parser.add_argument("--seed", type=int, help="to repeat a run; default: another each time")
    parser.add_argument("--round", type=int, help="only this round of the seed")
    parser.add_argument("--connections", type=int, default=120, help="connections of a round")
    parser.add_argument("--only", nargs="*", default=[], choices=BEHAVIOURS, metavar="BEHAVIOUR", help="only these")
    parser.add_argument("--kind", nargs="*", choices=KINDS, metavar="KIND", help="only rounds of these kinds")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds without a byte that are a hang")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
