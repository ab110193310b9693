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
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # spans that nobody reads

from .plan import Turn, conversation, conversations
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
    if options.only is not None:
        _tell_all(outcome)
    else:
        _tell_examples(outcome, options.seed)
    _tell_sums(outcome)
    return 0 if outcome.is_right else 1


# ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────


def _tell_sums(outcome: Outcome) -> None:
    verdict = outcome.verdict
    for (fault, declared), count in sorted(Counter((one.fault, one.declared) for one in verdict.charges).items()):
        print(f"{count} {fault}{f', declared by {declared}' if declared else ''}")
    if outcome.kills:
        unarrived = sum(not truth.executed for truth in outcome.truths)
        print(f"{outcome.kills} kills: {unarrived} messages never arrived, {verdict.excused} turns lost as documented")
    if "Traceback" in outcome.log:
        print(f"the log has a traceback:\n{outcome.log[outcome.log.index('Traceback') :][:3000]}")
    print(*outcome.growth, sep="\n", end="")
    wrong, partly = verdict.wrong()
    print(f"{wrong} of {len(outcome.records)} turns wrong; {partly} declared so; {outcome.seconds:.0f} s")


def _tell_examples(outcome: Outcome, seed: int) -> None:
    turns = {record.turn.number: record.turn for record in outcome.records}
    for charge in outcome.verdict.charges[:EXAMPLES]:
        about = f"turn {charge.turn} ({_named(turns[charge.turn])})" if charge.turn in turns else "none of ours"
        print(f"{about}: {charge.fault}: {charge.detail}{f' ({charge.declared})' if charge.declared else ''}")
    if outcome.verdict.charges:
        print(f'one of them alone: ARGS="--seed {seed} --only N", where N is the number of the turn without its end')


def _named(turn: Turn) -> str:
    return f"{turn.kind}, {turn.send.binding}, then {turn.read.binding}"


def _tell_all(outcome: Outcome) -> None:
    for record, truth in zip(outcome.records, outcome.truths, strict=True):
        turn = record.turn
        print(f"\nturn {turn.number}: {_named(turn)}; {'continues' if turn.continues else 'new task'}")
        print(f"  task {record.task_id or 'none'}, context {record.context_id}, message id {turn.message_ids}")
        print(f"  {turn.instruction()}")
        print(*(f"  {line}" for line in record.log), sep="\n")
        print(f"  executed: {truth.calls}, {truth.end}")
        for stored in outcome.stored:
            if stored.number == turn.number:
                print(f"  stored {stored.turn_id}: {stored.status} {stored.state} {stored.calls} {stored.findings}")
        for charge in outcome.verdict.charges:
            if charge.turn == turn.number:
                print(f"  WRONG: {charge.fault}: {charge.detail} {charge.declared}")


if __name__ == "__main__":
    sys.exit(main())
