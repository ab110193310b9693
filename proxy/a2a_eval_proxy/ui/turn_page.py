"""One turn in full."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException

from .screen import Screen, View
from .turn_rows import own_results, turn_row


async def _values(view: View) -> dict[str, Any]:
    turn_id = view.request.path_params["turn_id"]
    turn = await view.control.store.turn(turn_id)
    if turn is None:
        raise HTTPException(404, f"There is no turn {turn_id!r}. It may have been deleted, or not be stored yet.")
    return {"turn": turn, "row": turn_row(turn), "results": own_results(turn)}


SCREEN = Screen("/turns/{turn_id}", "turn.html", _values, fragments=("turn",))
