"""Users talk to the agents at the same time; then every tree is held against what was asked."""

from __future__ import annotations

import asyncio
import json
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
from .plan import AGENTS, NOTHING, REFERENCE, WHOLE, Message

UNNAMED, UNSEEN = "whole, unnamed", "reference, unseen"
"""The whole trace context of a turn that did not name itself in it: one proxy leaves the `tracestate` of a client as it
is. And an id of a task that no proxy saw: the agent broke before it answered."""

CERTAIN = "certain"


@dataclass
class Outcome:
    """`edges`: how many there are, by what the message carried and how they are drawn."""

    turns: int = 0
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


async def soak(planned: Sequence[Message], proxies: int, folder: Path, seed: int) -> Outcome:
    """`planned` are messages of users. More than one of the proxies share a PostgreSQL, and each agent has one of them:
    then messages name their turn in whatever trace they are."""
    crew, outcome, dice = Crew(), Outcome(), Random(f"{seed}/users")
    with ExitStack() as stack:
        agents = stack.enter_context(running_crew(crew, AGENTS))
        store = stack.enter_context(running_postgres()).new_database() if proxies > 1 else folder / "turns.db"
        options = ("--store", str(store), "--log-level", "warning")
        running = [stack.enter_context(Proxy(agents.url, folder / "turns.db", *options)) for _ in range(proxies)]
        crew.entrance = lambda agent: f"{running[AGENTS.index(agent) % proxies].url}/{agent}"
        try:
            async with http_client() as client:
                asked = (crew.ask(client, one, "", Context()) for one in dice.sample(planned, len(planned)))
                await asyncio.gather(*asked)
        except Exception as error:
            error.add_note("\n".join(proxy.stderr() for proxy in running))
            raise
        await crew.done()
        for proxy in running:
            await asyncio.to_thread(proxy.flush)
        turns = await asyncio.to_thread(running[0].turns, limit=1000)
        outcome.turns = len(turns)
        parents = await _drawn(crew, turns, running[-1], outcome.problems)
        _judge(crew, turns, parents, outcome, names_turns=proxies > 1)
        outcome.problems += [line for proxy in running for line in proxy.stderr().splitlines() if "Traceback" in line]
    return outcome


async def _drawn(
    crew: Crew, turns: Sequence[dict[str, Any]], proxy: Proxy, problems: list[str]
) -> dict[str, tuple[str, bool]]:
    """The parent of each message that has one in a tree, and whether that edge is certain."""
    keys = {turn["turn_id"]: json.loads(turn["user_text"])["key"] for turn in turns}
    missing, doubled = crew.parents.keys() - set(keys.values()), len(keys) - len(set(keys.values()))
    if missing or doubled:
        problems.append(f"{len(missing)} messages are in no turn, {doubled} in several: {sorted(missing)[:3]}")
    parents: dict[str, tuple[str, bool]] = {}
    seen: set[str] = set()
    async with httpx.AsyncClient(base_url=proxy.admin_url, trust_env=False, timeout=60) as client:
        for turn_id in sorted(keys, key=lambda turn_id: crew.parents[keys[turn_id]] != ""):  # those of users first
            if turn_id in seen:
                continue
            tree = (await client.get(f"/api/turns/{turn_id}/tree")).json()
            edges = list(_edges(tree["root"]))
            found = {tree["root"]["turn_id"], *(child["turn_id"] for _, child in edges)}
            guesses = sum(not child["asked"]["certain"] for _, child in edges)
            if tree["totals"]["left_out"] or tree["totals"]["guesses"] != guesses:
                problems.append(f"the totals of {turn_id} are not those of its tree")
            if turn_id not in found:
                problems.append(f"{turn_id} is not in its own tree")
            seen |= found
            for parent, child in edges:
                drawn = keys[parent["turn_id"]], child["asked"]["certain"]
                if parents.setdefault(keys[child["turn_id"]], drawn) != drawn:
                    problems.append(f"{child['turn_id']} has two parents")
    return parents


def _judge(
    crew: Crew,
    turns: Sequence[dict[str, Any]],
    parents: dict[str, tuple[str, bool]],
    outcome: Outcome,
    *,
    names_turns: bool,
) -> None:
    """Edges by trace context or reference must be certain and right, and no certain edge may be wrong."""

    def names_itself(key: str) -> bool:
        """Whether its agent gets a trace context that names the turn."""
        how = crew.how[key]
        if names_turns or how in (NOTHING, REFERENCE):
            return True
        return how == WHOLE and bool(crew.parents[key]) and names_itself(crew.parents[key])

    tasks = {json.loads(turn["user_text"])["key"]: turn["task_id"] for turn in turns}
    for key, parent in crew.parents.items():
        how = crew.how[key]
        if how == REFERENCE and not tasks.get(parent):
            how = UNSEEN
        elif how == WHOLE and parent and not names_itself(parent):
            how = UNNAMED
        drawn, certain = parents.get(key, ("", False))
        if drawn or parent:
            outcome.edges[how, CERTAIN if certain else "a guess" if drawn else "none"] += 1
        if certain and (drawn != parent or how in (NOTHING, UNSEEN)):
            outcome.problems.append(f"{key} carries {how}; its edge from {drawn} is certain")
        elif parent and how in (WHOLE, REFERENCE) and not certain:
            outcome.problems.append(f"{key} carries {how}; its edge from {drawn or 'nothing'} is not certain")


def _edges(root: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for child in root["children"]:
        yield root, child
        yield from _edges(child)
