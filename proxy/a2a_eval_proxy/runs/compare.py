"""`compare`: what changed between two stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from tool_call_evaluators.outcomes.comparison import Comparison, compare
from tool_call_evaluators.outcomes.regression import MARGIN
from tool_call_evaluators.report import comparison_html, comparison_json, comparison_markdown, comparison_text
from tool_call_evaluators.report.compared import Tone

from ..store import RunSummary, Store
from ..store.base import Evaluations, TurnJson
from .files import write_file
from .stored_turns import (
    UnknownRunError,
    compact,
    conversation_results,
    open_existing_store,
    runs_before,
    turns_of,
    unknown_run,
)

_STYLES: Mapping[Tone, Mapping[str, Any]] = {
    "worse": {"fg": "red"},
    "better": {"fg": "green"},
    "changed": {"fg": "yellow"},
    "quiet": {"dim": True},
}

PAGE = "comparison.html"

FORMS: Mapping[str, Callable[[Comparison], str]] = {
    "text": lambda comparison: comparison_text(comparison, lambda text, tone: click.style(text, **_STYLES[tone])),
    "json": comparison_json,
    "markdown": comparison_markdown,
    "html": comparison_html,
}


async def compare_runs(
    location: str,
    before: str,
    after: str,
    cases: Collection[str] | None = None,
    margin: float = MARGIN,
    detect: float | None = None,
    agent: str | None = None,
) -> Comparison:
    """Two runs of one store; `before` may be `version:NAME`, the runs of an agent version. Raises StoreError where
    there is no store, or no such run in it."""
    async with open_existing_store(location) as store:
        return await compare_stored(store, before, after, cases, margin, detect, agent)


async def compare_stored(
    store: Store,
    before: str,
    after: str,
    cases: Collection[str] | None = None,
    margin: float = MARGIN,
    detect: float | None = None,
    agent: str | None = None,
) -> Comparison:
    """As `compare_runs`, of an open store, in a thread; with `cases`, only these, and only turns of one of several
    agents, if that is given. Raises UnknownRunError."""
    runs, baseline = await runs_before(store, before, after)
    earlier = [turn for run in runs for turn in await _turns(store, run, cases, agent)]
    if baseline is not None:
        earlier = _of_version(earlier, baseline.version)
    later = await _turns(store, after, cases, agent)
    names = before if baseline is None else f"version {baseline.version}", after
    return await asyncio.to_thread(
        compare,
        earlier,
        later,
        names=names,
        conversation_results=(await _results(store, runs), await _results(store, [after])),
        margin=margin,
        detect=detect,
        baseline=baseline,
    )


async def compared_runs(store: Store, before: str, after: str) -> tuple[list[RunSummary], RunSummary]:
    """The runs whose turns `compare_stored` reads, as they are now. Raises UnknownRunError."""
    later = await store.runs(after)
    if not later:
        raise UnknownRunError(await unknown_run(store, after))
    names, _ = await runs_before(store, before, after)
    return [run for name in names for run in await store.runs(name)], later[0]


async def _turns(store: Store, run: str, cases: Collection[str] | None, agent: str | None) -> list[TurnJson]:
    return [compact(turn) async for turn in turns_of(store, run, agent) if cases is None or turn["case_id"] in cases]


def _of_version(turns: Sequence[TurnJson], version: str) -> list[TurnJson]:
    """The turns of conversations that this version of the agent held to their end; it may change during a run."""

    def conversation(turn: TurnJson) -> str:
        return f"{turn['run']}/{turn['conversation_id'] or turn['turn_id']}"

    others = {conversation(turn) for turn in turns if (turn.get("agent_card") or {}).get("version") != version}
    return [turn for turn in turns if conversation(turn) not in others]


async def _results(store: Store, runs: Iterable[str]) -> dict[str, Evaluations]:
    """Those of whole conversations. Each names its run: agents may give conversations of several runs the same id."""
    found: dict[str, Evaluations] = {}
    for run in runs:
        for conversation, results in (await conversation_results(store, run)).items():
            found.setdefault(conversation, []).extend({**result, "run": run} for result in results)
    return found


def write_page(comparison: Comparison, folder: Path) -> Path:
    """Write comparison.html into `folder`, which is created if necessary; returns its path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / PAGE, comparison_html(comparison))
    return folder / PAGE
