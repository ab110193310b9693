"""Where readers go from the page of a turn: back to their list, to the turns next to it, through its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..store import TurnQuery
from ..store.base import TurnJson
from .rendering import turn_row
from .screen import View
from .turn_list import filtered, given_filters

MAX_OF_CONVERSATION = 50
"""Turns of the conversation that are listed."""


async def neighbours(view: View, turn: TurnJson) -> Mapping[str, Any]:
    """The values of `turn_neighbours.html`. The filters are those of the list from which the reader came."""
    filters, link = given_filters(view.request), view.link
    query = replace(filtered(view.control.cases, filters), limit=1)
    cursor = await view.control.store.cursor_after(turn["turn_id"])
    found: dict[str, str | None] = {}
    for name, newest_first in (("newer", False), ("older", True)):
        items = []
        if cursor is not None:
            page = await view.control.store.turns(replace(query, cursor=cursor, newest_first=newest_first))
            items = page.items
        found[name] = link("turns", items[0]["turn_id"], **filters) if items else None
    return {
        **found,
        "filters": filters,
        "back": link("", **filters) + f"#t-{turn['turn_id']}",
        "conversation_rows": await _of_conversation(view, turn),
    }


async def _of_conversation(view: View, turn: TurnJson) -> list[Mapping[str, Any]]:
    """The turns of its conversation in its run, in order; [] if there is no other."""
    if not turn["conversation_id"]:
        return []
    query = TurnQuery(run=turn["run"], conversation=turn["conversation_id"], limit=MAX_OF_CONVERSATION, summary=True)
    turns = (await view.control.store.turns(query)).items
    return [turn_row(one) for one in turns] if any(one["turn_id"] != turn["turn_id"] for one in turns) else []
