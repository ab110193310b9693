"""The list of turns, newest first, with filters whose state is the URL."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException

from ..store import TurnQuery
from .screen import Screen, View
from .turn_rows import turn_row

_PAGE = 50
_FILTERS = ("run", "case", "conversation", "status", "cursor")


async def _values(view: View) -> dict[str, Any]:
    given = {name: value for name, value in view.request.query_params.items() if value}
    store = view.control.store
    try:
        page = await store.turns(TurnQuery(limit=_PAGE, **{name: given.get(name) for name in _FILTERS}))
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    return {
        "agent": await view.agent.status() if view.agent else None,
        "rows": [turn_row(turn) for turn in reversed(page.items)],
        "next_cursor": page.next_cursor,
        "runs": [run.name for run in reversed(await store.runs())],
        "filters": given,
    }


SCREEN = Screen("/", "turns.html", _values, nav="Turns", fragments=("rows",))
