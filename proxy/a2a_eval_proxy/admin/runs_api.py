"""The routes of runs."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..runs.summary import run_details
from .api_operation import ApiAnswer, ApiOperation, ApiParameter, Given
from .control import Control
from .schemas import named, page_of

_NO_RUN = ApiAnswer("There is no such run", named("Error"))


class RunsApi:
    """Handles `/api/runs`."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._judging = asyncio.Lock()

    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation("GET", "/api/runs", "List all runs", self.runs, {200: ApiAnswer("All runs", page_of("Run"))}),
            ApiOperation(
                "GET", "/api/runs/{name:path}", "Get a run with its metrics and its verdict", self.run,
                {200: ApiAnswer("The run", named("RunDetails")), 404: _NO_RUN},
                [ApiParameter("name", "Name of the run")],
            ),
        ]  # fmt: skip

    async def runs(self, _: Request, given: Given) -> Response:
        runs = await self._control.store.runs()
        return JSONResponse({"items": [asdict(run) for run in runs], "next_cursor": None})

    async def run(self, _: Request, given: Given) -> Response:
        name = given["name"]
        runs = await self._control.store.runs(name)
        if not runs:
            raise HTTPException(404, f"no run {name!r}; GET /api/runs lists them")
        async with self._judging:  # one at a time: each may have thousands of turns in memory
            return JSONResponse(await run_details(self._control.store, self._control.suite, runs[0]))
