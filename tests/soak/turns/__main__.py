"""Random turns with an oracle: `make turns`, or `make turns ARGS="--turns 1000 --seed 7 --processes 3"`.

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
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["OTEL_INSTRUMENTATION_A2A_SDK_ENABLED"] = "false"  # spans that nobody reads

from support.proxy import COMMAND

from .clients import Agent, Connections, Hooks, Record, World, converse
from .judge import Fault, Stored, Truth, Verdict, judge
from .plan import Conversation, Turn, conversation, conversations
from .proxies import Proxies, receiving, running_agent, running_proxies

QUIET_WITHIN_S = 20.0
"""How long the store may take to close what has ended: longer than any wait that the documents name."""
EXAMPLES = 25


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make turns", description="Random turns with an oracle.")
    parser.add_argument("--turns", type=int, default=400, help="at least so many; default 400")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of what clients send")
    parser.add_argument("--clients", type=int, default=20, help="conversations at once; default 20")
    parser.add_argument("--processes", type=int, default=1, help="of the proxy")
    parser.add_argument("--proxies", type=int, default=1, help="on one PostgreSQL; clients choose at random")
    parser.add_argument("--transcode", action="store_true", help="the agent has only gRPC")
    parser.add_argument("--only", type=int, metavar="N", help="only conversation N of the seed, and all about it")
    parser.add_argument("--proxy", type=Path, default=COMMAND, help="the a2a-eval-proxy to test")
    options = parser.parse_args(arguments)
    how = f"{options.proxies} proxies, {options.processes} processes{', transcoding' if options.transcode else ''}"
    print(f"seed {options.seed}, {options.clients} clients, {how}, {options.proxy}", flush=True)
    planned = list(conversations(options.seed, options.turns))
    if options.only is not None:
        planned = [conversation(options.seed, options.only)]
    with TemporaryDirectory() as folder:
        return asyncio.run(_soak(options, planned, Path(folder)))


async def _soak(options: argparse.Namespace, planned: list[Conversation], folder: Path) -> int:
    hooks = Hooks()
    proxies: Proxies | None = None
    with running_agent() as agent:
        async with receiving(hooks, lambda: proxies.push_ports() if proxies else [], options.seed) as url:
            hooks.url = url
            context = running_proxies(
                agent,
                f"{url}/push",
                folder,
                count=options.proxies,
                processes=options.processes,
                transcode=options.transcode,
                command=options.proxy,
            )
            proxies = await asyncio.to_thread(context.__enter__)
            try:
                world = World(Connections(proxies.entrances), Agent(agent[0]), hooks, options.seed)
                began = time.monotonic()
                records = await _load(planned, world, options.clients)
                print(f"{len(records)} turns in {time.monotonic() - began:.0f} s", flush=True)
                turns = await _quiet(proxies)
                truths = _truths(records, await world.agent.log())
                await world.connections.close()
                await world.agent.close()
                complaints = proxies.stderr()
            finally:
                await asyncio.to_thread(context.__exit__, None, None, None)
            return _tell(options, records, truths, turns, complaints)


async def _load(planned: list[Conversation], world: World, clients: int) -> list[Record]:
    """All conversations, so many at once."""
    waiting, records = iter(planned), []

    async def client() -> None:
        for one in waiting:
            records.extend(await converse(one, world))

    await asyncio.gather(*(client() for _ in range(clients)))
    return sorted(records, key=lambda record: record.turn.number)


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


def _truths(records: list[Record], log: dict[str, Any]) -> list[Truth]:
    calls: dict[int, list[tuple[int, int]]] = {}
    for turn, number in log["calls"]:
        calls.setdefault(turn, []).append((turn, number))
    truths = []
    for record in records:
        turn = record.turn
        made = tuple(calls.get(turn.number, ()))
        if not record.refusal and len(made) != turn.call_count:
            raise AssertionError(f"turn {turn.number}: planned {turn.call_count} calls, executed {made}")
        executed = str(turn.number) in log["task_of"]
        truths.append(Truth(turn.number, turn.kind, turn.end, made, executed, record.refusal))
    return truths


# ── what is printed ─────────────────────────────────────────────────────────────────────────────────────────


def _tell(
    options: argparse.Namespace,
    records: list[Record],
    truths: list[Truth],
    turns: list[dict[str, Any]],
    log: str,
) -> int:
    stored = [Stored.of(turn) for turn in turns]
    verdict = judge(truths, stored)
    if options.only is not None:
        _tell_all(records, truths, stored, verdict)
    else:
        _tell_examples(verdict, {record.turn.number: record.turn for record in records}, options.seed)
    _tell_table(verdict)
    if "Traceback" in log:
        print(f"the log has a traceback:\n{log[log.index('Traceback') :][:3000]}")
    return 1 if verdict.charges or "Traceback" in log else 0


def _tell_table(verdict: Verdict) -> None:
    faults = [fault for fault in Fault if any(charge.fault is fault for charge in verdict.charges)]
    kinds = Counter(verdict.kinds.values())
    silent = Counter((verdict.kinds.get(one.turn, ""), one.fault) for one in verdict.charges if not one.declared)
    width = max([len(kind) for kind in kinds], default=5)
    print(f"\n{'client':{width}}  turns  wrong  {'  '.join(faults)}")
    for kind in [*sorted(kinds), ""]:
        counts = [silent[kind, fault] for fault in faults]
        if kind or any(counts):
            cells = "  ".join(f"{count or '':>{len(fault)}}" for fault, count in zip(faults, counts, strict=True))
            print(f"{kind or 'none of ours':{width}}  {kinds[kind]:5}  {len(verdict.wrong(kind)):5}  {cells}")
    declared = Counter((one.declared, one.fault) for one in verdict.charges if one.declared)
    for (finding, fault), count in sorted(declared.items()):
        print(f"declared by {finding}: {count} {fault}")
    for finding, count in sorted(verdict.remarks.items()):
        print(f"turns with nothing wrong and {finding}: {count}")
    if verdict.excused:
        print(f"turns that a kill may lose, and did: {verdict.excused}")
    wrong, partly = len(verdict.wrong()), len(verdict.wrong(declared=True))
    print(f"{wrong} of {len(verdict.kinds)} turns wrong, {verdict.per_thousand():.1f} per 1,000; {partly} declared so")


def _tell_examples(verdict: Verdict, turns: dict[int, Turn], seed: int) -> None:
    for charge in verdict.charges[:EXAMPLES]:
        turn = turns.get(charge.turn)
        about = f"turn {charge.turn} ({turn.kind}, {turn.send.binding})" if turn else "none of ours"
        print(f"{about}: {charge.fault}: {charge.detail}{f' ({charge.declared})' if charge.declared else ''}")
    if verdict.charges:
        print(f'one of them alone: ARGS="--seed {seed} --only N", where N is the number of the turn without its end')


def _tell_all(records: list[Record], truths: list[Truth], stored: list[Stored], verdict: Verdict) -> None:
    for record, truth in zip(records, truths, strict=True):
        print(f"\nturn {truth.number}: {record.turn.kind}, {'continues' if record.turn.continues else 'new task'}")
        print(f"  task {record.task_id or 'none'}, context {record.context_id}, {record.turn.instruction()}")
        for line in record.log:
            print(f"  {line}")
        print(f"  executed: {truth.calls}, {truth.end}")
        for turn in stored:
            if turn.number == truth.number:
                print(f"  stored: {turn.status} {turn.state} {turn.calls} {', '.join(turn.findings)} ({turn.turn_id})")
        for charge in verdict.charges:
            if charge.turn == truth.number:
                print(f"  WRONG: {charge.fault}: {charge.detail} {charge.declared}")


if __name__ == "__main__":
    sys.exit(main())
