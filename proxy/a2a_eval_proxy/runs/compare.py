"""`compare`: what changed between two stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import click
from tool_call_evaluators.report import comparison_html, comparison_json, comparison_markdown, comparison_text
from tool_call_evaluators.report.compared import Tone
from tool_call_evaluators.runs.comparison import Comparison, compare
from tool_call_evaluators.runs.regression import MARGIN

from ..files import write_file
from ..store import Store
from .stored_turns import compact, conversation_results, open_existing_store, turns_of

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
) -> Comparison:
    """Two runs of one store. Raises StoreError where there is no store, or no such run in it."""
    async with open_existing_store(location) as store:
        return await compare_stored(store, before, after, cases, margin, detect)


async def compare_stored(
    store: Store,
    before: str,
    after: str,
    cases: Collection[str] | None = None,
    margin: float = MARGIN,
    detect: float | None = None,
) -> Comparison:
    """Two runs of an open store, compared in a thread; with `cases`, only these. Raises UnknownRunError."""
    runs = await _turns(store, before, cases), await _turns(store, after, cases)
    results = await conversation_results(store, before), await conversation_results(store, after)
    return await asyncio.to_thread(
        compare, *runs, names=(before, after), conversation_results=results, margin=margin, detect=detect
    )


async def _turns(store: Store, run: str, cases: Collection[str] | None) -> list[dict[str, Any]]:
    return [compact(turn) async for turn in turns_of(store, run) if cases is None or turn["case_id"] in cases]


def write_page(comparison: Comparison, folder: Path) -> Path:
    """Write comparison.html into `folder`, which is created if necessary; returns its path. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / PAGE, comparison_html(comparison))
    return folder / PAGE
