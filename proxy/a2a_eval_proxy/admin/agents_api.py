"""The routes of the agents behind the proxy."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .agent_report import failing_first
from .api_route import NoQuery, api_route
from .control import Api, known_agent


class AgentsApi(Api):
    def routes(self) -> list[Route]:
        return [
            api_route("GET", "/api/agents", self.agents),
            api_route("GET", "/api/agents/{name}", self.agent),
        ]

    async def agents(self, _: Request, given: NoQuery) -> Response:
        reports = failing_first(await self._control.agent_reports())
        return JSONResponse({"items": [report.to_dict() for report in reports], "next_cursor": None})

    async def agent(self, _: Request, name: str, given: NoQuery) -> Response:
        try:
            known_agent(self._control, name)
        except HTTPException as error:
            raise HTTPException(404, error.detail) from None
        (report,) = await self._control.agent_reports([name])
        return JSONResponse(report.to_dict())
