"""The routes of cases: tests register the cases that the traffic is scored against."""

from __future__ import annotations

import json
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tool_call_evaluators.suite import SuiteError, parse_case

from ..scoring.case_book import RegisteredCase, TooManyCasesError, registered_case
from .control import Control

_MAX_CASE_BYTES = 1024 * 1024


class CasesApi:
    """Handles `/api/cases`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def put_case(self, request: Request) -> Response:
        case_id = request.path_params["case_id"]
        data, size = await _json_object(request)
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


async def _json_object(request: Request) -> tuple[dict[str, Any], int]:
    """The body, and how many bytes it has."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_CASE_BYTES:
            raise HTTPException(413, f"a case may have {_MAX_CASE_BYTES} bytes at most")
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise HTTPException(400, "the body must be a JSON object, as a case in a suite file")
    return data, len(body)
