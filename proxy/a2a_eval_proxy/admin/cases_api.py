"""The routes of cases: tests register cases that the traffic is scored against."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tool_call_evaluators.suite import Case, parse_case
from tool_call_evaluators.suite.writing import case_dict

from ..scoring.case_book import CaseBook, RegisteredCase, TooManyCasesError, registered_case
from ..scoring.scorer import WITHOUT_SUITE
from .api_route import api_route, json_object, json_response
from .control import Api, scoring_for

_MAX_CASE_BYTES = 1024 * 1024


class OfAgent(BaseModel):
    agent: Annotated[str, Field(max_length=1000)] | None = None
    """Name of one of several agents, whose suite is meant. Required where they have different suites."""


class CasesApi(Api):
    def routes(self) -> list[Route]:
        case = "/api/cases/{case_id:path}"
        return [
            api_route("GET", "/api/cases", self.cases, OfAgent),
            api_route("PUT", case, self.put_case, OfAgent),
            api_route("DELETE", case, self.delete_case, OfAgent),
        ]

    async def cases(self, _: Request, given: OfAgent) -> Response:
        scoring = scoring_for(self._control, given.agent)
        listed, suite = scoring.cases.listed(), scoring.suite or WITHOUT_SUITE

        def items() -> list[dict[str, Any]]:
            return [
                {"case_id": case.id, "origin": origin, "tags": list(case.tags), "case": case_dict(case, suite)}
                for case, origin in listed
            ]

        return json_response({"items": await asyncio.to_thread(items), "next_cursor": None})

    async def put_case(self, request: Request, case_id: str, given: OfAgent) -> Response:
        data, size = await json_object(request, "a case", _MAX_CASE_BYTES)
        try:
            body, context_id = registered_case(data, case_id)
            if body.get("id") != case_id:
                raise ValueError(f"id: the body says {body.get('id')!r}, the path {case_id!r}")
            case = parse_case(body, "case")
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        cases, case = self._place_of(case, given.agent)
        try:
            cases.put(RegisteredCase(case, context_id, size))
        except TooManyCasesError as error:
            raise HTTPException(409, f"{error}; delete some: DELETE /api/cases/ID") from None
        return JSONResponse({"case_id": case_id, "context_id": context_id})

    def _place_of(self, case: Case, agent: str | None) -> tuple[CaseBook, Case]:
        """The cases of the `agent`, or of the one that the case names, and the case, which is for that agent.

        Raises HTTPException (400, 409).
        """
        own, *others = case.agents
        if others and self._control.agent_names:
            said = "turns of several agents are one conversation in `run` alone; register a case for each agent"
            raise HTTPException(400, f"turns: {said}")
        if agent is not None and own not in (None, agent):
            raise HTTPException(400, f"agent: the body says {own!r}, the address {agent!r}")
        named = agent or (own if self._control.agent_names else None)
        cases = scoring_for(self._control, named).cases
        before = cases.case(case.id)
        if named is None:
            return cases, case
        if before is not None and before.agent not in (None, named):
            raise HTTPException(409, f"the case {case.id!r} is of the agent {before.agent}; choose another id")
        return cases, replace(case, agent=named)

    async def delete_case(self, _: Request, case_id: str, given: OfAgent) -> Response:
        if not scoring_for(self._control, given.agent).cases.remove(case_id):
            raise HTTPException(404, f"no case {case_id!r} was registered; cases of the suite file stay")
        return Response(status_code=204)
