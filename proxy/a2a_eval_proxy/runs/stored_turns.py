"""What the commands read from a store: all turns, or those of a run. `prune` deletes old ones."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tool_call_evaluators.model import READ_DETAILS
from tool_call_evaluators.options import did_you_mean
from tool_call_evaluators.outcomes.comparison import Baseline
from tool_call_evaluators.report.model import OUTCOMES
from tool_call_evaluators.report.shorten import with_outcome
from tool_call_evaluators.texts import counted, listed

from ..store import RunSummary, Store, StoreError, TurnQuery, every_turn, open_store
from ..store.base import Evaluations, Limits, TurnJson

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_PAGE = 200  # turns in memory at once; one may hold megabytes
_NAMED_RUNS = 20
_MOST_RUNS = 10_000  # the newest runs, among which a similar name is searched
VERSION = "version:"
"""What precedes the version of an agent in the name of a baseline."""
MOST_BASELINE_RUNS = 20
"""The newest runs of a version are its baseline: more of them hardly make a test better."""
MOST_BASELINE_TURNS = 50_000  # they are in memory together
_SHORT = 500  # characters of an answer that are kept as the reason of a failed task


class UnknownRunError(StoreError):
    """The store has no turns of that run; the message names the runs it has."""


@asynccontextmanager
async def open_existing_store(location: str) -> AsyncIterator[Store]:
    """A store that exists. Raises StoreError where it does not."""
    store = open_store(location, must_exist=True)
    try:
        yield store
    finally:
        await asyncio.to_thread(store.close)


async def turns_of(store: Store, run: str | None, agent: str | None = None) -> AsyncIterator[TurnJson]:
    """The turns of a run (None: of all runs), of one of several agents (None: of all), oldest first, read page by page.

    Raises UnknownRunError where the store has none: of that run before the first turn.
    """
    if run is not None:
        await _check_run(store, run)
    found = False
    async for turn in every_turn(store, TurnQuery(run=run, agent=agent), _PAGE):
        found = True
        yield turn
    if agent is not None and not found:
        raise UnknownRunError(no_turns_of(agent, run))


def no_turns_of(agent: str, run: str | None) -> str:
    """That the store or the run has no turn of that agent, and what names those that it has."""
    where = "the store" if run is None else f"run {run!r}"
    return f"{where} has no turns of the agent {agent!r}; `show RUN` names the agents of a run"


async def check_baseline(location: str, baseline: str, run: str | None) -> None:
    """Raise StoreError where there is no store, or nothing in it with which `run` could be compared."""
    async with open_existing_store(location) as store:
        await runs_before(store, baseline, run)


async def runs_before(store: Store, name: str, run: str | None) -> tuple[list[str], Baseline | None]:
    """The runs that a baseline names, the newest first: one run, or with `version:NAME` those of an agent version, with
    the baseline that they are.

    These are the newest, up to `MOST_BASELINE_RUNS` and `MOST_BASELINE_TURNS`; without `run`, which is compared with
    them, and without runs of an agent with another name. Raises UnknownRunError.
    """
    version = name.removeprefix(VERSION)
    if version == name or await store.runs(name):
        await _check_run(store, name)
        return [name], None
    cards = await store.agent_cards(_MOST_RUNS)
    own = dict(cards).get(run or "", {}).get("name")
    named = {
        other: None
        for other, card in cards
        if card["version"] == version and other != run and own in (None, card["name"])
    }
    found = list(named)
    if not found:
        known = list(dict.fromkeys(card["version"] for other, card in cards if other != run))
        raise UnknownRunError(
            f"no earlier run of version {version!r}{did_you_mean(version, known)}; the store has "
            + (
                f"versions {listed(known, _NAMED_RUNS, 'others')}"
                if known
                else "no run of a known version: agents state it in their card, or give --agent-version"
            )
        )
    chosen: list[str] = []
    turns = 0
    for other in found[:MOST_BASELINE_RUNS]:
        turns += (await store.runs(other))[0].turns
        if chosen and turns > MOST_BASELINE_TURNS:
            break
        chosen.append(other)
    return chosen, Baseline(version, tuple(chosen), len(found) - len(chosen))


def verdict_text(run: RunSummary) -> str:
    """`Passed`, `No suite`; "…" where turns came since."""
    status = "unjudged" if run.verdict is None else run.verdict.status
    return "…" if status == "pending" else OUTCOMES[status][1]


async def newest_runs(store: Store, agent: str | None = None) -> list[RunSummary]:
    """The runs, newest first; with `agent`, those in which this one of several agents has turns."""
    runs = list(reversed(await store.runs()))
    if agent is None:
        return runs
    wanted = set(await store.run_names(len(runs), agent))
    return [run for run in runs if run.name in wanted]


async def known_versions(store: Store) -> list[str]:
    """The versions of agents in the store, the newest first, at most as many as messages name."""
    cards = await store.agent_cards(_MOST_RUNS)
    return list(dict.fromkeys(card["version"] for _, card in cards))[:_NAMED_RUNS]


async def _check_run(store: Store, run: str) -> None:
    if not await store.runs(run):
        raise UnknownRunError(await unknown_run(store, run))


async def write_turns(location: str, run: str | None, out: SupportsWrite[str], agent: str | None = None) -> None:
    """One turn a line, oldest first, in the JSON form of /api/turns; a page of them in memory at a time.

    Raises StoreError where there is no store, or no such run or `agent` in it.
    """
    async with open_existing_store(location) as store:
        async for turn in turns_of(store, run, agent):
            out.write(json.dumps(turn, ensure_ascii=False) + "\n")


async def conversation_results(
    store: Store, run: str | None, conversations: Collection[str] | None = None
) -> dict[str, Evaluations]:
    """Results of whole conversations of a run (None: of all), by conversation id, of these or all; each result names
    its `case_id` and its `agent_name`."""
    results: dict[str, Evaluations] = {}
    each = [None] if conversations is None else conversations
    for conversation in [found for name in each for found in await store.conversations(run, name)]:
        key = conversation.key
        said = ({**result, "case_id": key.case_id, "agent_name": key.agent_name} for result in conversation.evaluations)
        results.setdefault(key.conversation_id, []).extend(said)
    return results


def without_texts(turn: Mapping[str, Any]) -> TurnJson:
    """A turn without what makes it large: tool results, the long answer, details of results, spans, the world."""
    return {
        **{name: value for name, value in turn.items() if name not in ("spans", "world")},
        "response_text": turn["response_text"][:_SHORT],
        "tool_calls": [with_outcome(call, None, call["error"]) for call in turn["tool_calls"]],
        "evaluations": [
            {**result, "details": {key: value for key, value in result["details"].items() if key in READ_DETAILS}}
            for result in turn["evaluations"]
        ],
    }


def compact(turn: TurnJson) -> TurnJson:
    """A turn with what a comparison and a recording read: many fit into memory."""
    bare = without_texts(turn)
    results = [result | {"reason": ""} for result in bare["evaluations"]]
    return bare | {"response_text": "", "capture": {}, "evaluations": results}


async def unknown_run(store: Store, run: str) -> str:
    """That the store does not have `run`, and which it has: the newest ones are named."""
    names = await store.run_names(_MOST_RUNS)
    if not names:
        return f"no run {run!r}: the store is empty"
    more = len(names) - _NAMED_RUNS
    has = ", ".join(reversed(names[:_NAMED_RUNS])) + (f" and {more} older" if more > 0 else "")
    return f"no run {run!r}{did_you_mean(run, names)}; the store has {has}"


async def pruned(location: str, days: float | None, megabytes: int | None) -> str:
    """Delete turns that ended more than `days` ago, then the oldest until the store takes at most `megabytes`.

    Returns what was deleted. Raises StoreError.
    """
    async with open_existing_store(location) as store:
        deleted = await store.pruned(Limits.of(days, megabytes, time.time()))
        left = (await store.figures()).turns
    return f"deleted {counted(deleted, 'turn')}; {left} are left"
