"""The list of turns, newest first, with filters whose state is the URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from ..admin.turn_queries import turn_query
from .finding_meanings import MEANINGS
from .screen import Screen, View
from .turn_rows import turn_row

_PAGE = 50
_VERDICTS = (
    ("", "All"),
    ("failed", "Failed"),
    ("errored", "Errored"),
    ("passed", "Passed"),
    ("unscored", "Not scored"),
)
_NARROWING = (("case", "Case"), ("tool", "Tool"), ("evaluator", "Evaluator"), ("finding", "Finding"))
_FILTERS = ("verdict", "q", "run", "conversation", *(name for name, _ in _NARROWING))


async def _values(view: View) -> Mapping[str, Any]:
    store = view.control.store
    filters = {name: value for name in _FILTERS if (value := view.request.query_params.get(name, "").strip())}
    cursor = view.request.query_params.get("cursor")
    given = {**filters, "limit": _PAGE, "cursor": cursor, "order": "newest"}
    try:
        page = await store.turns(turn_query(view.control.cases, given))
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    link = view.link
    return {
        "agent": await view.agent.status() if view.agent else None,
        "proxy_url": view.proxy_url,
        "is_live": view.agent is not None and cursor is None,
        "counters": (),
        "rows": [turn_row(turn) for turn in page.items],
        "filters": filters,
        "verdicts": _VERDICTS,
        "is_narrowed": any(name in filters for name, _ in _NARROWING),
        "narrowing": [(name, title, _known(view, name)) for name, title in _NARROWING],
        "runs": [run.name for run in reversed(await store.runs())],
        "first_page": link(**filters),
        "next_page": link(**filters, cursor=page.next_cursor) if page.next_cursor else None,
    }


def _known(view: View, name: str) -> list[str]:
    """Values to choose from."""
    suite = view.control.suite
    if name == "finding":
        return list(MEANINGS)
    if suite is None or name == "tool":
        return []
    return [case.id for case in suite.cases] if name == "case" else list(suite.metrics)


SCREEN = Screen("/", "turns.html", _values, nav="Turns", fragments=("head", "list"))
