"""What people do with a turn: annotate it, copy or append the case that it makes, bind it to a case."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from tool_call_evaluators.suite.appending import case_text
from tool_call_evaluators.suite.combined import CombinedSuite

from ...admin.annotations_api import annotate, remove_annotation
from ...admin.request_body import form_of
from ...admin.turn_cases_api import append_case, bind_case, recorded_case, repeats
from ..screen import Screen, Values, View


async def _to_turn(view: View) -> Response:
    return RedirectResponse(view.link("turns", view.request.path_params["turn_id"]), 303)


async def _annotate(view: View) -> Response:
    turn_id, form = view.request.path_params["turn_id"], await form_of(view.request)
    if "delete" in form:
        await remove_annotation(view.control, turn_id, form["delete"])
    else:
        await annotate(view.control, turn_id, form)
    return RedirectResponse(view.link("turns", turn_id) + "#annotations", 303)


async def _case(view: View) -> Values:
    turn_id = view.request.path_params["turn_id"]
    one_file = not isinstance(view.control.suite, CombinedSuite)
    values = {"turn_id": turn_id, "suite_file": view.control.suite_file if one_file else None}
    try:
        case, comments = await recorded_case(view.control, turn_id)
    except HTTPException as error:
        if error.status_code != 409:
            raise
        return {**values, "problem": error.detail, "text": "", "case_id": "", "repeats": ""}
    text, repeated = case_text(case, comments), repeats(view.control, case)
    return {**values, "problem": None, "text": text, "case_id": case.id, "repeats": repeated}


async def _use_case(view: View) -> Response:
    turn_id, form = view.request.path_params["turn_id"], await form_of(view.request)
    if form.pop("action", "") == "bind":
        await bind_case(view.control, turn_id, form)
        return RedirectResponse(view.link("turns", turn_id), 303)
    await append_case(view.control, {**form, "turn_id": turn_id})
    return RedirectResponse(view.link("cases"), 303)


SCREENS = (
    Screen("/turns/{turn_id}/annotations", "error.html", _to_turn, action=_annotate),
    Screen("/turns/{turn_id}/case", "turn_case.html", _case, action=_use_case),
)
