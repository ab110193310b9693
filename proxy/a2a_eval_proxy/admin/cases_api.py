"""The routes of cases: tests register the cases that the traffic is scored against."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tool_call_evaluators.suite import SuiteError, parse_case

from ..scoring.case_book import RegisteredCase, TooManyCasesError, registered_case
from .control import Control
from .request_body import json_object

_MAX_CASE_BYTES = 1024 * 1024


class CasesApi:
    """Handles `/api/cases`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def put_case(self, request: Request) -> Response:
        case_id = request.path_params["case_id"]
        data, size = await json_object(request, "a case", _MAX_CASE_BYTES)
        try:
            body, context_id = registered_case(data, case_id)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        if body.get("id") != case_id:
            raise HTTPException(400, f"id: the body says {body.get('id')!r}, the path {case_id!r}")
        try:
            case = parse_case(body, "case")
        except SuiteError as error:
            raise HTTPException(400, str(error)) from None
        try:
            self._control.cases.put(RegisteredCase(case, context_id, size))
        except TooManyCasesError as error:
            raise HTTPException(409, f"{error}; delete some: DELETE /api/cases/ID") from None
        return JSONResponse({"case_id": case_id, "context_id": context_id})

    async def delete_case(self, request: Request) -> Response:
        case_id = request.path_params["case_id"]
        if not self._control.cases.remove(case_id):
            raise HTTPException(404, f"no case {case_id!r} was registered; cases of the suite file stay")
        return Response(status_code=204)
