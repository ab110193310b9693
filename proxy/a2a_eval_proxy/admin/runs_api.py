"""The routes of runs."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..runs.summary import run_details
from .control import Control


class RunsApi:
    """Handles `/api/runs`."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._judging = asyncio.Lock()

    async def runs(self, _: Request) -> Response:
        runs = await self._control.store.runs()
        return JSONResponse({"items": [asdict(run) for run in runs], "next_cursor": None})

    async def run(self, request: Request) -> Response:
        name = request.path_params["name"]
        runs = await self._control.store.runs(name)
        if not runs:
            raise HTTPException(404, f"no run {name!r}; GET /api/runs lists them")
        async with self._judging:  # one at a time: each may have thousands of turns in memory
            return JSONResponse(await run_details(self._control.store, self._control.suite, runs[0]))
