"""Users talk to the agents at the same time; then every tree is held against what was asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx
from opentelemetry.context import Context
from support.postgres_server import running_postgres
from support.proxy import Proxy

from .crew import Crew, http_client, running_crew
from .plan import AGENTS, HOW, NOTHING, REFERENCE, WHOLE, Message

UNNAMED, UNSEEN = "whole, unnamed", "reference, unseen"
"""The whole trace context of a turn that did not name itself in it: one proxy leaves the `tracestate` of a client as it
is. And an id of a task that no proxy saw: the agent broke before it answered."""

ROWS = (*HOW, UNNAMED, UNSEEN)


@dataclass(frozen=True)
class Setup:
    """More than one of `proxies` share a PostgreSQL, and each agent has one of them.
    `named`: each proxy knows the agents by name (`--agents`), else as paths of one."""

    proxies: int = 1
    named: bool = False

    @property
    def shares_store(self) -> bool:
        return self.proxies > 1

    @property
    def names_turns(self) -> bool:
        """Whether messages name their turn in whatever trace they are."""
        return self.shares_store or self.named


@dataclass
class Outcome:
    """Edges by what the message carried (`ROWS`) and how they are drawn."""

    conversations: int
    turns: int = 0
    right: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By `how`, and whether the edge is certain."""
    wrong: Counter[tuple[str, bool]] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    drawn: int = 0
    """Turns in trees of users."""
    seconds: float = 0.0
    slowest_tree_s: float = 0.0

    @property
    def is_right(self) -> bool:
        certain = all(self.right[how, True] == self.asked(how) for how in (WHOLE, REFERENCE))
        return certain and not self.problems and not any(self.wrong[how, True] for how in ROWS)

    def asked(self, how: str) -> int:
        counts = self.right[how, True], self.right[how, False], self.wrong[how, True], self.wrong[how, False]
        return sum(counts) + self.missing[how]

    def lines(self) -> Iterator[str]:
        columns = {"edges": 7, "certain": 9, "wrong": 7, "guesses": 9, "wrong guesses": 15, "none": 6}
        yield f"{'message carries':20}" + "".join(f"{name:>{width}}" for name, width in columns.items())
        for how in ROWS:
            right, wrong = [[count[how, certain] for certain in (True, False)] for count in (self.right, self.wrong)]
            counts = self.asked(how), right[0] + wrong[0], wrong[0], right[1] + wrong[1], wrong[1], self.missing[how]
            cells = zip(counts, columns.values(), strict=True)
            yield f"{how:20}" + "".join(f"{count:{width}}" for count, width in cells)
        yield (
            f"{self.conversations} conversations at once, {self.turns} turns, {self.drawn} of them in trees of users; "
            f"slowest tree {1000 * self.slowest_tree_s:.0f} ms; {self.seconds:.0f} s"
        )


async def soak(planned: Sequence[Message], setup: Setup, folder: Path, seed: int) -> Outcome:
    """`planned` are messages of users."""
    crew, outcome, dice, began = Crew(), Outcome(len(planned)), Random(f"{seed}/users"), time.monotonic()
    with ExitStack() as stack:
        agents = stack.enter_context(running_crew(crew, AGENTS))
        store = stack.enter_context(running_postgres()).new_database() if setup.shares_store else folder / "turns.db"
        proxies = [stack.enter_context(_proxy(agents.url, store, folder, setup)) for _ in range(setup.proxies)]
        below = "/agents" if setup.named else ""
        crew.entrance = lambda agent: f"{proxies[AGENTS.index(agent) % len(proxies)].url}{below}/{agent}"
        try:
            async with http_client() as client:
                asked = (crew.ask(client, one, "", Context()) for one in dice.sample(planned, len(planned)))
                await asyncio.gather(*asked)
        except Exception as error:
            error.add_note("\n".join(proxy.stderr() for proxy in proxies))
            raise
        await crew.done()
        for proxy in proxies:
            await asyncio.to_thread(proxy.flush)
        turns = await asyncio.to_thread(proxies[0].turns, limit=1000)
        await _judge(crew, turns, proxies[-1], outcome, setup)
        outcome.problems += [line for proxy in proxies for line in proxy.stderr().splitlines() if "Traceback" in line]
    outcome.seconds = time.monotonic() - began
    return outcome


def _proxy(upstream: str, store: Any, folder: Path, setup: Setup) -> Proxy:
    options = ("--store", str(store), "--log-level", "warning")
    if setup.named:
        upstream = ",".join(f"{name}={upstream}/{name}" for name in AGENTS)
    return Proxy(upstream, folder / "turns.db", *options)


async def _judge(crew: Crew, turns: Sequence[dict[str, Any]], proxy: Proxy, outcome: Outcome, setup: Setup) -> None:
    keys = {turn["turn_id"]: json.loads(turn["user_text"])["key"] for turn in turns}
    outcome.turns = len(keys)
    missing, doubled = crew.parents.keys() - set(keys.values()), len(keys) - len(set(keys.values()))
    if missing or doubled:
        outcome.problems.append(f"{len(missing)} messages are in no turn, {doubled} in several: {sorted(missing)[:3]}")
    parents: dict[str, tuple[str, bool]] = {}
    users = [turn_id for turn_id, key in keys.items() if not crew.parents[key]]
    seen: set[str] = set()
    async with httpx.AsyncClient(base_url=proxy.admin_url, trust_env=False, timeout=60) as client:
        for turn_id in [*users, *(set(keys) - set(users))]:
            if turn_id in seen:
                continue
            began = time.perf_counter()
            tree = (await client.get(f"/api/turns/{turn_id}/tree")).json()
            outcome.slowest_tree_s = max(outcome.slowest_tree_s, time.perf_counter() - began)
            edges = list(_edges(tree["root"]))
            found = {tree["root"]["turn_id"], *(child["turn_id"] for _, child in edges)}
            if tree["totals"]["left_out"] or tree["totals"]["guesses"] != sum(
                not child["asked"]["certain"] for _, child in edges
            ):
                outcome.problems.append(f"the totals of {turn_id} are not those of its tree")
            if turn_id not in found:
                outcome.problems.append(f"{turn_id} is not in its own tree")
            seen |= found
            outcome.drawn += len(found) if turn_id in users else 0
            for parent, child in edges:
                drawn = keys[parent["turn_id"]], child["asked"]["certain"]
                if parents.setdefault(keys[child["turn_id"]], drawn) != drawn:
                    outcome.problems.append(f"{child['turn_id']} has two parents")

    def names_itself(key: str) -> bool:
        """Whether its agent gets a trace context that names the turn."""
        how = crew.how[key]
        if setup.names_turns or how in (NOTHING, REFERENCE):
            return True
        return how == WHOLE and bool(crew.parents[key]) and names_itself(crew.parents[key])

    tasks = {keys[turn["turn_id"]]: turn["task_id"] for turn in turns}
    for key, parent in crew.parents.items():
        how = crew.how[key]
        if how == REFERENCE and not tasks.get(parent):
            how = UNSEEN
        elif how == WHOLE and parent and not names_itself(parent):
            how = UNNAMED
        if key not in parents:
            if parent:
                outcome.missing[how] += 1
            continue
        drawn, certain = parents[key]
        (outcome.right if drawn == parent else outcome.wrong)[how, certain] += 1
        if how in (NOTHING, UNSEEN) and certain:
            outcome.problems.append(f"{key} carries nothing, and its edge is certain")


def _edges(root: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for child in root["children"]:
        yield root, child
        yield from _edges(child)
