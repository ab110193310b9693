"""The routes of annotations: people assess turns and their results."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from a2a_tool_capture.models import rfc3339
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..ids import new_turn_id
from ..privacy.policy import Privacy
from ..store.base import TurnJson
from ..store.reads import MOST_OF_A_TURN, Annotation
from .api_operation import ApiAnswer, ApiOperation, ApiParameter, Given
from .control import Control
from .request_body import json_object
from .schemas import ASSESSMENTS, named, page_of
from .turns_api import NO_TURN, TURN_ID, stored_turn

MAX_NOTE, MAX_WHO = 2_000, 100
"""Characters."""
_MAX_BYTES = 64 * 1024
_FIELDS = ("assessment", "evaluator", "note", "who")


class AnnotationsApi:
    """Handles `/api/turns/{turn_id}/annotations`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def operations(self) -> list[ApiOperation]:
        path, error = "/api/turns/{turn_id}/annotations", named("Error")
        return [
            ApiOperation(
                "GET", path, "List the annotations of a turn", self.annotations,
                {200: ApiAnswer("All annotations of the turn", page_of("Annotation")), 404: NO_TURN}, [TURN_ID],
            ),
            ApiOperation(
                "POST", path, "Annotate a turn or one of its results", self.annotate,
                {
                    201: ApiAnswer("It is stored", named("Annotation")),
                    404: NO_TURN,
                    409: ApiAnswer("The turn has too many annotations", error),
                    413: ApiAnswer("The body is too large", error),
                },
                [TURN_ID], named("NewAnnotation"),
            ),
            ApiOperation(
                "DELETE", f"{path}/{{annotation_id}}", "Delete an annotation", self.remove,
                {
                    204: ApiAnswer("It is deleted", media_type=None),
                    404: ApiAnswer("The turn has no such annotation", error),
                },
                [TURN_ID, ApiParameter("annotation_id", "Id of the annotation")],
            ),
        ]  # fmt: skip

    async def annotations(self, _: Request, given: Given) -> Response:
        turn = await stored_turn(self._control.store, given["turn_id"])
        return JSONResponse({"items": turn.get("annotations", []), "next_cursor": None})

    async def annotate(self, request: Request, given: Given) -> Response:
        data, _ = await json_object(request, "an annotation", _MAX_BYTES)
        return JSONResponse((await annotate(self._control, given["turn_id"], data)).to_dict(), 201)

    async def remove(self, _: Request, given: Given) -> Response:
        await remove_annotation(self._control, given["turn_id"], given["annotation_id"])
        return Response(status_code=204)


async def annotate(control: Control, turn_id: str, data: Mapping[str, Any]) -> Annotation:
    """Store an annotation (`NewAnnotation` of the schemas). Raises HTTPException (400, 404, 409)."""
    annotation = _annotation(control.privacy, await stored_turn(control.store, turn_id), data)
    if not await control.store.annotate(annotation):
        raise HTTPException(409, f"the turn has {MOST_OF_A_TURN} annotations, the maximum; delete some")
    return annotation


async def remove_annotation(control: Control, turn_id: str, annotation_id: str) -> None:
    """Raises HTTPException (404)."""
    if not await control.store.remove_annotation(turn_id, annotation_id):
        raise HTTPException(404, f"turn {turn_id!r} has no annotation {annotation_id!r}")


def _annotation(privacy: Privacy, turn: TurnJson, data: Mapping[str, Any]) -> Annotation:
    """Raises HTTPException (400) for what is no annotation of this turn."""
    for name in data:
        if name not in _FIELDS:
            raise HTTPException(400, f"{name!r:.80}: no such field; there are {', '.join(_FIELDS)}")
    if data.get("assessment") not in ASSESSMENTS:
        raise HTTPException(400, f"assessment: expected 'right' or 'wrong', got {data.get('assessment')!r:.80}")
    result = _result(turn, data.get("evaluator"))
    return Annotation(
        annotation_id=new_turn_id(),
        turn_id=turn["turn_id"],
        assessment=data["assessment"],
        note=privacy.stored_note(_text(data, "note", MAX_NOTE)),
        who=privacy.stored_note(_text(data, "who", MAX_WHO)),
        at=rfc3339(datetime.now(UTC)),
        **({} if result is None else {name: result[name] for name in ("evaluator", "score", "passed", "version")}),
    )


def _result(turn: TurnJson, evaluator: Any) -> dict[str, Any] | None:
    """The result of the turn that is assessed; None for the turn itself. Raises HTTPException (400)."""
    if evaluator is None:
        return None
    results: dict[str, dict[str, Any]] = {result["evaluator"]: result for result in turn["evaluations"]}
    if not isinstance(evaluator, str) or evaluator not in results:
        names = ", ".join(results) or "none"
        raise HTTPException(400, f"evaluator: the turn has no result of {evaluator!r:.80}; its results: {names}")
    return results[evaluator]


def _text(data: Mapping[str, Any], name: str, most: int) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise HTTPException(400, f"{name}: expected a text of at most {most} characters")
    return value.strip()
