"""What the page of a turn shows of the work on it."""

from __future__ import annotations

from typing import Any

from ...admin.annotations_api import MAX_NOTE, MAX_WHO
from ...admin.timeline import Observed, timeline
from ...admin.wire_api import timeline_of
from ...store.base import TurnJson
from ..screen import View
from .waterfall import waterfall


async def turn_work(view: View, turn: TurnJson) -> dict[str, Any]:
    """The values of `turn_work.html` and `waterfall.html`."""
    is_done = turn["status"] == "done"
    # The page of an open turn is rendered again with each event: reading its wire as often would be much work.
    found = await timeline_of(view.control, turn) if is_done else timeline(turn, (), Observed())
    return {
        "waterfall": waterfall(found),
        "annotations": turn.get("annotations", []),
        "evaluators": [result["evaluator"] for result in turn["evaluations"]],
        "max_note": MAX_NOTE,
        "max_who": MAX_WHO,
        "is_done": is_done,
        "cases_to_bind": [case.id for case, _ in view.control.cases.listed()]
        if is_done and view.control.evaluates
        else [],
    }
