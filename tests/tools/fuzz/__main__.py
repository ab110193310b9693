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

from .differential.rounds import run_differential_round
from .octets.rounds import run_octets_round
from .rounds import PATIENCE_S, run_hostile_round

KINDS = {"hostile": run_hostile_round, "differential": run_differential_round, "octets": run_octets_round}
"""Of a seed, the number of the round, how many connections, seconds without a byte that are a hang, and the list of
findings, to which the round adds its own."""

SEEDS = 1_000_000
_TOLD_CHARACTERS = 20_000


def main() -> int:
    """Exit code 0 without a finding, 1 with one."""
    parser = argparse.ArgumentParser(prog="make fuzz", description="The fuzzer of all ports.")
    parser.add_argument("--minutes", type=float, default=3.0, help="how long; default 3")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(SEEDS), help="default: another each time")
    parser.add_argument("--round", type=int, help="only this round of the seed")
    parser.add_argument("--connections", type=int, default=120, help="of a round; default 120")
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS), help="only rounds of these kinds")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    started = time.monotonic()
    index = options.round or 0
    while True:
        for kind in options.kind:
            began, findings = time.monotonic(), list[str]()
            playing = KINDS[kind](options.seed, index, options.connections, PATIENCE_S, findings)
            ends = asyncio.run(playing)
            told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
            print(f"round {index}, {kind}, {time.monotonic() - began:.1f} s: {told}", flush=True)
            if findings:
                print(f"FOUND: to play the round again, --seed {options.seed} --round {index} --kind {kind}")
                print("\n".join(findings)[:_TOLD_CHARACTERS])
                return 1
        index += 1
        if time.monotonic() - started > options.minutes * 60 or options.round is not None:
            return 0


if __name__ == "__main__":
    raise SystemExit(main())
