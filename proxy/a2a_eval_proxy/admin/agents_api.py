"""The routes of the agents behind the proxy."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .agent_report import failing_first
from .api_operation import ApiOperation, ApiParameter, Given
from .control import Api, known_agent


class AgentsApi(Api):
    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation(
                "GET", "/api/agents", "List the agents behind the proxy, those that fail now first", self.agents,
                {200: "All agents"},
            ),
            ApiOperation(
                "GET", "/api/agents/{name}", "Get one of several agents", self.agent,
                {200: "The agent", 404: "There is no such agent"},
                [ApiParameter("name", "Its name in the settings")],
            ),
        ]  # fmt: skip

    async def agents(self, _: Request, given: Given) -> Response:
        reports = failing_first(await self._control.agent_reports())
        return JSONResponse({"items": [report.to_dict() for report in reports], "next_cursor": None})

    async def agent(self, _: Request, given: Given) -> Response:
        try:
            name = known_agent(self._control, given["name"])
        except HTTPException as error:
            raise HTTPException(404, error.detail) from None
        (report,) = await self._control.agent_reports([name])
        return JSONResponse(report.to_dict())
