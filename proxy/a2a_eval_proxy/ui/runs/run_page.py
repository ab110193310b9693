"""The screen of one run."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from ...runs.summary import MAX_TURNS
from ..links import name_in
from ..screen import Screen, Values, View
from .run_list import FIRST_PAINT_S
from .run_rows import moment, run_row


async def _values(view: View) -> Values:
    name = name_in(view.request)
    found = await view.control.store.runs(name)
    if not found:
        raise HTTPException(404, f"The store has no run {name[:200]!r}.")
    (run,) = found
    query = view.request.query_params
    waits = None if "fragment" in query or "wait" in query else FIRST_PAINT_S
    judged = await view.runs.view(run, view.link, waits)
    row = run_row(run, judged, lags=view.runs.lags(run, view.link))
    return {
        "run": run,
        "row": row,
        "judged": judged,
        "too_long": MAX_TURNS if run.turns > MAX_TURNS else None,
        "ended": moment(run.ended_at),
    }


SCREEN = Screen("/runs/{name:path}", "run.html", _values, fragments=("run",))
