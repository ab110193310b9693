"""The screen of all runs, newest first, with the trends of their suites."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException

from ...store import RunSummary
from ..screen import Screen, Values, View
from .run_rows import RunRow, run_row, trends

PAGE = 25
"""Runs on a page."""
FIRST_PAINT_S = 0.4
"""For so long a page waits for verdicts; its fragment, for the others, for FRAGMENT_S."""
FRAGMENT_S = 5.0


def page_number(text: str | None) -> int:
    """The value of `?page=`, from 1. Raises HTTPException."""
    if text is None:
        return 1
    if not (text.isdecimal() and text.isascii() and len(text) < 9 and int(text) > 0):
        raise HTTPException(400, f"page: expected a whole number from 1, got {text[:100]!r}")
    return int(text)


async def _values(view: View) -> Values:
    query = view.request.query_params
    page = page_number(query.get("page"))
    runs = list(reversed(await view.control.store.runs()))
    shown = runs[(page - 1) * PAGE : page * PAGE]
    rows = await judged(view, shown, FRAGMENT_S if "fragment" in query else FIRST_PAINT_S)
    return {
        "rows": rows,
        "trends": trends(rows),
        "waits": any(row.lags for row in rows),
        "count": len(runs),
        "page": page,
        "older": page + 1 if page * PAGE < len(runs) else None,
        "newer": page - 1 if page > 1 else None,
    }


async def judged(view: View, runs: list[RunSummary], within_s: float) -> list[RunRow]:
    """Rows of these runs, with the verdicts that are ready within that time. Raises StoreError."""
    clock = asyncio.get_running_loop().time
    until = clock() + within_s
    views = [await view.runs.view(run, view.link, max(0.0, until - clock())) for run in runs]
    return [run_row(run, found, lags=view.runs.lags(run, view.link)) for run, found in zip(runs, views, strict=True)]


SCREEN = Screen("/runs", "runs.html", _values, nav="Runs", fragments=("runs",))
