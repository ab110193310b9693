"""The routes of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from tool_call_evaluators.report import comparison_json
from tool_call_evaluators.runs.comparison import Comparison

from ..runs.compare import compare_stored, compared_runs
from ..runs.run_result import MAX_TURNS, LongRunError, run_details, run_json, run_page, with_verdict
from ..runs.stored_turns import VERSION, UnknownRunError, newest_runs
from ..store import RunSummary
from .api_operation import ApiOperation, ApiParameter, Given
from .control import Api, Control

Judge = Callable[..., Coroutine[Any, Any, Any]]

_NO_RUN = "There is no such run"
_TOO_LONG = "The run has more than 10,000 turns; the message names the command for it"
_DOWNLOAD = {
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'",  # the report's own policy allows its script and style by their hashes
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RunsApi(Api):
    """Handles `/api/runs` and `/api/calibrations`. Runs are judged and compared one at a time."""

    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation(
                "GET", "/api/runs", "List all runs", self.runs, {200: "All runs"},
                [ApiParameter("agent", "Runs with turns of this one of several agents")],
            ),
            ApiOperation(
                "GET", "/api/calibrations", "List the calibrations of judges", self.calibrations,
                {200: "All calibrations"},
            ),
            ApiOperation(
                "GET", "/api/runs/{name}/report", "Download the HTML report of a run", self.report,
                {200: "The report", 404: _NO_RUN, 422: _TOO_LONG},
                [ApiParameter("name", "Name of the run; a slash is written `%2F`")], media_type="text/html",
            ),
            ApiOperation(
                "GET", "/api/runs/{before}/compare/{after}", "Compare two runs", self.compare,
                {200: "What changed", 404: _NO_RUN, 422: _TOO_LONG},
                [
                    ApiParameter("before", "Name of the first run, or `version:NAME`; a slash is written `%2F`"),
                    ApiParameter("after", "Name of the second run"),
                    ApiParameter("agent", "Only turns of this one of several agents"),
                ],
            ),
            ApiOperation(
                "GET", "/api/runs/{name:path}", "Get a run with its metrics and its verdict", self.run,
                {200: "The run", 404: _NO_RUN},
                [ApiParameter("name", "Name of the run")],
            ),
        ]  # fmt: skip

    async def runs(self, _: Request, given: Given) -> Response:
        store, work = self._control.store, self._control.work
        runs = reversed(await newest_runs(store, given["agent"]))
        judged = [await work.run(("verdict", run), partial(with_verdict, store, run)) or run for run in runs]
        return JSONResponse({"items": list(map(run_json, judged)), "next_cursor": None})

    async def calibrations(self, _: Request, given: Given) -> Response:
        return JSONResponse({"items": await self._control.store.calibrations(), "next_cursor": None})

    async def run(self, _: Request, given: Given) -> Response:
        return JSONResponse(await self._judged("details", given["name"], run_details))

    async def report(self, _: Request, given: Given) -> Response:
        name = given["name"]
        page = await self._judged("report", name, partial(run_page, trace_url=self._control.trace_url))
        file = f"attachment; filename=\"report.html\"; filename*=UTF-8''report-{quote(name[:100], safe='')}.html"
        return HTMLResponse(page, headers=_DOWNLOAD | {"Content-Disposition": file})

    async def compare(self, _: Request, given: Given) -> Response:
        before, after = given["before"], given["after"]
        for name in (before, after):
            if not name.startswith(VERSION):
                await self._run(name)
        try:
            text = await compared(self._control, before, after, given["agent"], comparison_json)
        except UnknownRunError as error:
            raise HTTPException(404, str(error)) from None
        except LongRunError as error:
            raise HTTPException(422, str(error)) from None
        return Response(text, media_type="application/json")

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


async def compared(
    control: Control,
    before: str,
    after: str,
    agent: str | None,
    form: Callable[[Comparison], str],
    within_s: float | None = None,
) -> str | None:
    """Two runs compared, in this form; None if that takes longer than `within_s`: then it is kept for the next time.

    Raises UnknownRunError, LongRunError, StoreError.
    """
    earlier, later = await compared_runs(control.store, before, after)
    if max(sum(run.turns for run in earlier), later.turns) > MAX_TURNS:
        raise LongRunError(
            f"there are more than {MAX_TURNS:,} turns; use `a2a-eval-proxy compare RUN_A RUN_B --format json`"
        )

    async def compare() -> str:
        comparison = await compare_stored(control.store, before, after, agent=agent)
        return await asyncio.to_thread(form, comparison)

    return await control.work.run((form, agent, before, *earlier, later), compare, within_s, keep=within_s is not None)
