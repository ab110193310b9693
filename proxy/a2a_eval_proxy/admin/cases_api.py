"""The routes of cases: tests register the cases that the traffic is scored against."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tool_call_evaluators.suite import SuiteError, parse_case

from ..scoring.case_book import RegisteredCase, TooManyCasesError, registered_case
from .api_operation import ApiAnswer, ApiOperation, ApiParameter, Given
from .control import Control
from .request_body import json_object
from .schemas import OPEN, named

_MAX_CASE_BYTES = 1024 * 1024


class CasesApi:
    """Handles `/api/cases`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def operations(self) -> list[ApiOperation]:
        error = named("Error")
        case_id = ApiParameter("case_id", "Id of the case")
        case = {**OPEN, "description": "A case as in a suite file; `context_id` names the conversation it is for"}
        return [
            ApiOperation(
                "PUT", "/api/cases/{case_id:path}", "Register a case, or replace it", self.put_case,
                {
                    200: ApiAnswer("It is registered", named("RegisteredCase")),
                    409: ApiAnswer("There are too many registered cases", error),
                    413: ApiAnswer("The case is too large", error),
                },
                [case_id], case,
            ),
            ApiOperation(
                "DELETE", "/api/cases/{case_id:path}", "Remove a registered case", self.delete_case,
                {
                    204: ApiAnswer("It is removed", media_type=None),
                    404: ApiAnswer("No case with this id is registered", error),
                },
                [case_id],
            ),
        ]  # fmt: skip

    async def put_case(self, request: Request, given: Given) -> Response:
        case_id = given["case_id"]
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

    async def delete_case(self, _: Request, given: Given) -> Response:
        case_id = given["case_id"]
        if not self._control.cases.remove(case_id):
            raise HTTPException(404, f"no case {case_id!r} was registered; cases of the suite file stay")
        return Response(status_code=204)
