"""Where readers go from the page of a turn: back to their list, to the turns next to it, through its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.runs.outcomes import agent_of_conversation

from ..store import TurnQuery
from ..store.base import TurnJson
from .rendering import turn_row
from .screen import View
from .turn_list import filtered, given_filters

_WORST_FIRST = {"failed": 0, "errored": 1, "open": 2, "pending": 3, "passed": 4}
MAX_OF_ATTEMPTS = 50
"""Turns of the case whose attempts are listed."""
MAX_OF_CONVERSATION = 50
"""Turns of the conversation that are listed."""


async def neighbours(view: View, turn: TurnJson) -> Mapping[str, Any]:
    """The values of `turn_neighbours.html`. The filters are those of the list from which the reader came."""
    filters, link = given_filters(view.request), view.link
    query = replace(filtered(view.control, filters), limit=1)
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
        "attempts": await _attempts(view, turn),
    }


async def _attempts(view: View, turn: TurnJson) -> list[Mapping[str, Any]]:
    """The first attempts at its case in its run: of each a turn with its worst verdict; [] if there is one attempt."""
    if turn["case_id"] is None or not turn["conversation_id"]:
        return []
    agent = agent_of_conversation(turn)
    query = TurnQuery(run=turn["run"], case=turn["case_id"], agent=agent, limit=MAX_OF_ATTEMPTS, summary=True)
    rows = [turn_row(one) for one in (await view.control.store.turns(query)).items]
    found = grouped((row["conversation_id"], row) for row in rows)
    worst: list[Mapping[str, Any]] = [
        min(own, key=lambda row: _WORST_FIRST.get(row["verdict"], len(_WORST_FIRST))) for own in found.values()
    ]
    return worst if len(worst) > 1 else []


async def _of_conversation(view: View, turn: TurnJson) -> list[Mapping[str, Any]]:
    """The turns of its conversation in its run, in order; [] if there is no other."""
    if not turn["conversation_id"]:
        return []
    of_conversation = TurnQuery(
        run=turn["run"], conversation=turn["conversation_id"], agent=agent_of_conversation(turn)
    )
    query = replace(of_conversation, limit=MAX_OF_CONVERSATION, summary=True)
    turns = (await view.control.store.turns(query)).items
    return [turn_row(one) for one in turns] if any(one["turn_id"] != turn["turn_id"] for one in turns) else []
