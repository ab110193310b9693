"""The form that annotates a turn or a result, and deletes annotations."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from ...admin.annotations_api import annotate, remove_annotation
from ...admin.request_body import form_of
from ..screen import Screen, View


async def _to_turn(view: View) -> Response:
    return RedirectResponse(view.link("turns", view.request.path_params["turn_id"]), 303)


async def _change(view: View) -> Response:
    turn_id, form = view.request.path_params["turn_id"], await form_of(view.request)
    if "delete" in form:
        await remove_annotation(view.control, turn_id, form["delete"])
    else:
        await annotate(view.control, turn_id, form)
    return RedirectResponse(view.link("turns", turn_id) + "#annotations", 303)


SCREEN = Screen("/turns/{turn_id}/annotations", "error.html", _to_turn, action=_change)
