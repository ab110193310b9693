"""The screen of the cases in force, with their last verdicts."""

from __future__ import annotations

from ..screen import Screen, Values, View
from .case_items import case_item
from .run_list import FIRST_PAINT_S, FRAGMENT_S, judged
from .run_view import last_rows

MAX_RUNS = 5
"""The newest runs are searched for the last conversations of cases."""
MAX_CASES = 500


async def _values(view: View) -> Values:
    listed = view.control.cases.listed()
    store = view.control.store
    names = await store.run_names(MAX_RUNS) if listed else []
    newest = [run for name in names for run in await store.runs(name)]
    rows = await judged(view, newest, FRAGMENT_S if "fragment" in view.request.query_params else FIRST_PAINT_S)
    last = last_rows({row.run.name: row.view for row in rows if row.view})
    return {
        "suite": view.control.suite,
        "suite_file": view.control.suite_file,
        "cases": [case_item(case, origin, last) for case, origin in listed[:MAX_CASES]],
        "more": max(0, len(listed) - MAX_CASES),
        "waits": any(row.lags for row in rows),
    }


SCREEN = Screen("/cases", "cases.html", _values, nav="Cases", fragments=("cases",))
