"""The screens of runs: all of them; one; two compared; and the cases in force."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from tool_call_evaluators.report import comparison_body
from tool_call_evaluators.report.model import OUTCOMES, seconds_between
from tool_call_evaluators.texts import duration_text, moment_text

from ..runs.compare import compare_stored, compared_runs
from ..runs.run_result import MAX_TURNS
from ..runs.stored_turns import VERSION, UnknownRunError, known_versions, newest_runs, verdict_text
from ..store import RunSummary
from .judged_runs import RunView
from .rendering import name_in
from .screen import Screen, Values, View


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table. `view` is None until it is judged, and for very long runs."""

    run: RunSummary
    view: RunView | None
    lags: bool  # whether the run is still to be judged, or has changed since it was
    when: str
    took: str

    @property
    def words(self) -> str:
        """The verdict: of a run that is not read yet, as it keeps it."""
        return OUTCOMES[self.view.status][1] if self.view else verdict_text(self.run)


def run_row(run: RunSummary, view: RunView | None, *, lags: bool = False) -> RunRow:
    return RunRow(
        run, view, lags, moment_text(run.started_at), duration_text(seconds_between(run.started_at, run.ended_at))
    )


PAGE = 25  # runs on a page
MAX_CHOICES = 100  # runs to choose from, for a comparison
FIRST_PAINT_S = 0.4  # for so long a page waits for verdicts; its fragment, for the others, for FRAGMENT_S
FRAGMENT_S = 5.0


def page_number(text: str | None) -> int:
    """The value of `?page=`, from 1. Raises HTTPException."""
    if text is None:
        return 1
    if not (text.isdecimal() and text.isascii() and len(text) < 9 and int(text) > 0):
        raise HTTPException(400, f"page: expected a whole number from 1, got {text[:100]!r}")
    return int(text)


async def _all_runs(view: View) -> Values:
    query = view.request.query_params
    page = page_number(query.get("page"))
    agent = query.get("agent") or None
    runs = await newest_runs(view.control.store, agent)
    shown = runs[(page - 1) * PAGE : page * PAGE]
    rows = await judged(view, shown, FRAGMENT_S if "fragment" in query else FIRST_PAINT_S)
    return {
        "rows": rows,
        "waits": any(row.lags for row in rows),
        "count": len(runs),
        "agent": agent,
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


async def _one_run(view: View) -> Values:
    run = await view.run(name_in(view.request))
    query = view.request.query_params
    waits = None if "fragment" in query or "wait" in query else FIRST_PAINT_S
    judged = await view.runs.view(run, view.link, waits)
    row = run_row(run, judged, lags=view.runs.lags(run, view.link))
    return {
        "run": run,
        "row": row,
        "judged": judged,
        "too_long": MAX_TURNS if run.turns > MAX_TURNS else None,
        "ended": moment_text(run.ended_at),
    }


async def _two_runs(view: View) -> Values:
    query, store = view.request.query_params, view.control.store
    before, after = names = [query.get("a"), query.get("b")]
    known = [run.name for run in await newest_runs(store)]
    for name in names:
        if name is not None and name not in known and not (name == before and name.startswith(VERSION)):
            raise HTTPException(404, f"The store has no run {name[:200]!r}.")
    agent = query.get("agent") or None
    values: dict[str, Any] = {
        "names": names,
        "agent": agent,
        "choices": known[:MAX_CHOICES],
        "versions": {VERSION + version: version for version in await known_versions(store)},
        "swaps": before in known and after in known,
        "body": None,
        "waits": False,
    }
    if before is None or after is None:
        return values | {"problem": None}
    if before == after:
        return values | {"problem": "Choose two different runs."}
    try:
        earlier, later = await compared_runs(store, before, after)
    except UnknownRunError as error:
        return values | {"problem": f"There is {error}."}
    if max(sum(run.turns for run in earlier), later.turns) > MAX_TURNS:
        return values | {"problem": f"More than {MAX_TURNS:,} turns are compared by `a2a-eval-proxy compare`."}
    waits = None if "fragment" in query or "wait" in query else FIRST_PAINT_S

    async def compared() -> Markup:
        comparison = await compare_stored(store, before, after, agent=agent)
        return Markup(comparison_body(comparison))  # noqa: S704  # every text in it is escaped

    key = ("comparison page", agent, before, *earlier, later)
    try:
        body = await view.control.work.run(key, compared, waits, keep=True)
    except UnknownRunError as error:
        return values | {"problem": f"{error}.".capitalize()}
    return values | {"problem": None, "body": body, "waits": body is None}


SCREENS = (
    Screen("/runs", "runs.html", _all_runs, nav="Runs", fragments=("runs",)),
    Screen("/runs/{name:path}", "run.html", _one_run, fragments=("run",)),
    Screen("/compare", "compare.html", _two_runs, fragments=("comparison",)),
)
