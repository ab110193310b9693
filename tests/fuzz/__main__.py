"""The fuzzer of the byte path, gRPC and the push relay: `make fuzz`, or `make fuzz ARGS="--minutes 30 --seed 7"`.

Rounds of many clients against a hostile agent, with the proxy as a process between them: over HTTP, over gRPC, and
every second time with webhooks. Prints the seed, a line for each round, and for a finding what both sides did. Exit
code 0 without a finding, 1 with one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from support.proxy import COMMAND

from . import plants
from .grpc_rounds import GrpcRound, run_grpc_round
from .plan import BEHAVIOURS, Round, round_of
from .plants import PLANTS
from .push_plan import PushRound, push_round_of
from .push_rounds import run_push_round
from .rounds import PATIENCE_S, Result, run_round

_SEEDS = 1_000_000
_PLANT_FOUND_WITHIN_S = 120
Kind = Literal["http", "grpc", "push"]
AnyRound = Round | GrpcRound | PushRound
_WHAT = {GrpcRound: "calls over gRPC at once", PushRound: "webhooks at once"}
_FLAGS = {GrpcRound: " --grpc", PushRound: " --push"}


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
    index = options.round or 0
    while True:
        for kind in _kinds(options, index):
            plan, result = await _play(options, seed, index, [options.proxy], kind)
            exchanges += result.exchanges
            found += bool(result.findings)
            print(_line(plan, result), flush=True)
            if result.findings:
                print(told(plan, result, time.monotonic() - started), flush=True)
        index += 1
        over = time.monotonic() - started > options.minutes * 60 or options.round is not None
        if over or (result.findings and not options.keep_going):
            break
    print(f"{exchanges} exchanges in {time.monotonic() - started:.0f} s, rounds with findings: {found}")
    return 1 if found else 0


def _kinds(options: argparse.Namespace, index: int) -> tuple[Kind, ...]:
    """The rounds of this number."""
    if options.push or options.grpc:
        return ("push",) if options.push else ("grpc",)
    if options.only or options.round is not None:
        return ("http",)
    return ("http", "grpc", "push") if index % 2 else ("http", "grpc")


async def _play(
    options: argparse.Namespace, seed: int, index: int, command: Sequence[str | Path], kind: Kind
) -> tuple[AnyRound, Result]:
    if kind == "grpc":
        calls = GrpcRound(seed, index)
        return calls, await run_grpc_round(calls, command)
    if kind == "push":
        webhooks = push_round_of(seed, index, webhooks=options.connections)
        return webhooks, await run_push_round(webhooks, command)
    plan = round_of(seed, index, connections=options.connections, only=frozenset(options.only))
    return plan, await run_round(plan, command, patience_s=options.patience)


async def _find_plants(names: list[str], seed: int, options: argparse.Namespace) -> int:
    """Each planted fault on its own: how long until the fuzzer finds something. 1 where one stays hidden."""
    hidden = 0
    for name in names:
        command = [sys.executable, Path(plants.__file__), name]
        kind: Kind = "push" if PLANTS[name].is_of_push else "grpc" if PLANTS[name].is_of_grpc else "http"
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


def _line(plan: AnyRound, result: Result) -> str:
    ends = ", ".join(f"{count} {end}" for end, count in sorted(result.ends.items()))
    timed = ", timed" if plan.timed else ""
    peak = result.peak_rss >> 20
    what = _WHAT.get(type(plan), "clients")
    return f"round {plan.index}: {plan.clients} {what}{timed}, {result.seconds:.1f} s, peak {peak} MB: {ends}"


def told(plan: AnyRound, result: Result, seconds: float) -> str:
    """The findings of a round, how to play it again, and what both sides of the exchanges did."""
    again = f"--seed {plan.seed} --round {plan.index}{_FLAGS.get(type(plan), '')}"
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
    parser.add_argument("--grpc", action="store_true", help="only rounds over gRPC")
    parser.add_argument("--push", action="store_true", help="only rounds of the push relay")
    parser.add_argument("--keep-going", action="store_true", help="go on after a finding")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds without a byte that are a hang")
    parser.add_argument(
        "--planted", nargs="*", choices=PLANTS, metavar="FAULT", help="find planted faults, each by itself"
    )
    parser.add_argument("--proxy", type=Path, default=COMMAND, help="the a2a-eval-proxy to test")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
