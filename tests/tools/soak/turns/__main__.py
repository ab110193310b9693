"""Random turns with an oracle: `make turns`, or `make turns ARGS="--turns 1000 --seed 7"`.

Clients of a2a-sdk talk through `serve` to agents of a2a-sdk that log what they executed. Afterwards every stored turn
is held against that log. Exit code 0 where each turn is there once, ended as its client was shown, with its own calls
and no others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # spans that nobody reads

from .plan import conversation, conversations
from .run import KILLS, Outcome, soak

EXAMPLES = 25


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make turns", description="Random turns with an oracle.")
    parser.add_argument("--turns", type=int, default=400, help="least number; default 400")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of what clients send")
    parser.add_argument("--clients", type=int, default=20, help="conversations at once; default 20")
    parser.add_argument("--proxies", type=int, default=1, help="on one PostgreSQL; clients choose at random")
    parser.add_argument("--kill", action="store_true", help=f"a proxy, or a serving process of one, {KILLS} times")
    parser.add_argument("--only", type=int, metavar="N", help="only conversation N of the seed, and all about it")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}, {options.clients} clients, {options.proxies} proxies", flush=True)
    planned = list(conversations(options.seed, options.turns))
    if options.only is not None:
        planned = [conversation(options.seed, options.only)]
    with TemporaryDirectory() as folder:
        outcome = asyncio.run(
            soak(planned, options.proxies, Path(folder), seed=options.seed, clients=options.clients, kill=options.kill)
        )
    _tell(outcome, options.seed, everything=options.only is not None)
    return 0 if outcome.is_right else 1


def _tell(outcome: Outcome, seed: int, *, everything: bool) -> None:
    """Examples of what is wrong, or all about each turn; then sums."""
    charges = outcome.verdict.charges
    for charge in charges[:EXAMPLES]:
        print(
            f"turn {charge.turn}: {charge.fault}: {charge.detail}{f' ({charge.declared})' if charge.declared else ''}"
        )
    for record, truth in zip(outcome.records, outcome.truths, strict=True) if everything else ():
        print(f"\n{record.turn}\ntask {record.task_id or 'none'}, context {record.context_id}", *record.log, sep="\n  ")
        print(truth, *(stored for stored in outcome.stored if stored.number == record.turn.number), sep="\n")
    if charges and not everything:
        print(f'one of them alone: ARGS="--seed {seed} --only N", where N is the number of the turn without its end')
    if outcome.kills:
        print(f"{outcome.kills} kills; {outcome.verdict.excused} turns lost as documented")
    if "Traceback" in outcome.log:
        print(f"the log has a traceback:\n{outcome.log[outcome.log.index('Traceback') :][:3000]}")
    print(*outcome.growth, sep="\n", end="")
    declared = sum(charge.declared != "" for charge in charges)
    print(f"{len(outcome.records)} turns, {len(charges)} faults, {declared} declared; {outcome.seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
