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

from support.proxy import COMMAND

from .judge import Fault
from .plan import Turn, conversation, conversations
from .proxies import Setup
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
    parser.add_argument("--proxy", type=Path, default=COMMAND, help="the a2a-eval-proxy to test")
    options = parser.parse_args(arguments)
    setup = Setup(options.proxies, options.proxy)
    print(f"seed {options.seed}, {options.clients} clients, {setup}", flush=True)
    planned = list(conversations(options.seed, options.turns))
    if options.only is not None:
        planned = [conversation(options.seed, options.only)]
    with TemporaryDirectory() as folder:
        outcome = asyncio.run(
            soak(planned, setup, Path(folder), seed=options.seed, clients=options.clients, kill=options.kill)
        )
    if options.only is not None:
        _tell_all(outcome)
    else:
        _tell_examples(outcome, options.seed)
    _tell_table(outcome)
    return 0 if outcome.is_right else 1


# ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────


def _tell_table(outcome: Outcome) -> None:
    verdict = outcome.verdict
    faults = [fault for fault in Fault if any(charge.fault is fault for charge in verdict.charges)]
    kinds = Counter(verdict.kinds.values())
    silent = Counter((verdict.kinds.get(one.turn, ""), one.fault) for one in verdict.charges if not one.declared)
    width = max(len(kind) for kind in [*kinds, "none of ours"])
    print(f"\n{'client':{width}}  turns  wrong  {'  '.join(faults)}")
    for kind in [*sorted(kinds), ""]:
        counts = [silent[kind, fault] for fault in faults]
        if kind or any(counts):
            cells = "  ".join(f"{count or '':>{len(fault)}}" for fault, count in zip(faults, counts, strict=True))
            print(f"{kind or 'none of ours':{width}}  {kinds[kind]:5}  {len(verdict.wrong(kind)):5}  {cells}".rstrip())
    declared = Counter((one.declared, one.fault) for one in verdict.charges if one.declared)
    for (finding, fault), count in sorted(declared.items()):
        print(f"declared by {finding}: {count} {fault}")
    for finding, count in sorted(verdict.remarks.items()):
        print(f"turns with nothing wrong and {finding}: {count}")
    if outcome.kills:
        unarrived = sum(not truth.executed for truth in outcome.truths)
        print(f"{outcome.kills} kills: {unarrived} messages never arrived, {verdict.excused} turns lost as documented")
    if "Traceback" in outcome.log:
        print(f"the log has a traceback:\n{outcome.log[outcome.log.index('Traceback') :][:3000]}")
    print(*outcome.growth, sep="\n", end="")
    wrong, partly = len(verdict.wrong()), len(verdict.wrong(declared=True))
    print(
        f"{wrong} of {len(verdict.kinds)} turns wrong, {verdict.per_thousand():.1f} per 1,000; {partly} declared so; "
        f"{outcome.seconds:.0f} s"
    )


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
