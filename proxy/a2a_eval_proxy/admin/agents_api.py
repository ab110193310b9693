"""The routes of the agents behind the proxy."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .agent_report import failing_first
from .api_route import NoQuery, api_route
from .control import Api


class AgentsApi(Api):
    def routes(self) -> list[Route]:
        return [api_route("GET", "/api/agents", self.agents)]

    async def agents(self, _: Request, given: NoQuery) -> Response:
        reports = failing_first(await self._control.agent_reports())
        return JSONResponse({"items": [report.to_dict() for report in reports], "next_cursor": None})
