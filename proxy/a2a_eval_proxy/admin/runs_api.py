"""The routes of runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..runs.run_result import LongRunError, run_details, run_json, run_page, with_verdict
from ..runs.stored_turns import newest_runs
from ..store import RunSummary
from .api_route import NoQuery, api_route
from .cases_api import OfAgent
from .control import Api

Judge = Callable[..., Coroutine[Any, Any, Any]]

_DOWNLOAD = {
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'",  # the report's own policy allows its script and style by their hashes
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RunsApi(Api):
    """Handles `/api/runs`. Runs are judged one at a time."""

    def routes(self) -> list[Route]:
        return [
            api_route("GET", "/api/runs", self.runs, OfAgent),
            api_route("GET", "/api/runs/{name}/report", self.report),
            api_route("GET", "/api/runs/{name:path}", self.run),
        ]

    async def runs(self, _: Request, given: OfAgent) -> Response:
        store, work = self._control.store, self._control.work
        runs = reversed(await newest_runs(store, given.agent))
        judged = [await work.run(("verdict", run), partial(with_verdict, store, run)) or run for run in runs]
        return JSONResponse({"items": list(map(run_json, judged)), "next_cursor": None})

    async def run(self, _: Request, name: str, given: NoQuery) -> Response:
        return JSONResponse(await self._judged("details", name, run_details))

    async def report(self, _: Request, name: str, given: NoQuery) -> Response:
        page = await self._judged("report", name, partial(run_page, trace_url=self._control.trace_url))
        file = f"attachment; filename=\"report.html\"; filename*=UTF-8''report-{quote(name[:100], safe='')}.html"
        return HTMLResponse(page, headers=_DOWNLOAD | {"Content-Disposition": file})

    async def _run(self, name: str) -> RunSummary:
        """Raises HTTPException (404)."""
        runs = await self._control.store.runs(name)
        if not runs:
            quoted = ", and a slash in a name is written %2F" if "/" in name else ""
            raise HTTPException(404, f"no run {name!r}; GET /api/runs lists them{quoted}")
        return runs[0]

    async def _judged(self, kind: str, name: str, judge: Judge) -> Any:
        """What `judge` returns for a run. Raises HTTPException (404, 422)."""
        control, run = self._control, await self._run(name)
        try:
            return await control.work.run((kind, run), lambda: judge(control.store, run))
        except LongRunError as error:
            raise HTTPException(422, str(error)) from None
