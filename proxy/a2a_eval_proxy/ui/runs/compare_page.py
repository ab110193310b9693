"""The screen that compares two runs."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException

from ...runs.summary import MAX_TURNS
from ..screen import Screen, Values, View
from .run_list import FIRST_PAINT_S

MAX_CHOICES = 100
"""Runs to choose from."""


async def _values(view: View) -> Values:
    query = view.request.query_params
    names = [query.get("a"), query.get("b")]
    runs = {run.name: run for run in reversed(await view.control.store.runs())}
    for name in names:
        if name is not None and name not in runs:
            raise HTTPException(404, f"The store has no run {name[:200]!r}.")
    values: dict[str, Any] = {"names": names, "choices": list(runs)[:MAX_CHOICES], "body": None, "problem": None}
    before, after = (runs.get(name or "") for name in names)
    if before is None or after is None or before == after:
        problem = "Choose two different runs." if before is not None and before == after else None
        return values | {"problem": problem, "waits": False}
    if max(before.turns, after.turns) > MAX_TURNS:
        problem = f"Runs of more than {MAX_TURNS:,} turns are compared by `a2a-eval-proxy compare`."
        return values | {"problem": problem, "waits": False}
    waits = None if "fragment" in query or "wait" in query else FIRST_PAINT_S
    body = await view.compared.body(before, after, waits)
    return values | {"body": body, "waits": body is None}


SCREEN = Screen("/compare", "compare.html", _values, fragments=("comparison",))
