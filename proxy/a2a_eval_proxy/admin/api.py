"""The admin API (Starlette): turns, conversations, runs, cases, flush, live events, health and metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from tool_call_evaluators.suite import Suite, SuiteError, parse_case

from ..net.browser_guard import BrowserGuard, HostNames
from ..runs.summary import run_details
from ..scoring.case_book import CaseBook, RegisteredCase, TooManyCasesError, registered_case
from ..store import Page, Store, StoreError, TurnQuery
from ..store.encoding import json_text
from ..telemetry.event_bus import EventBus

_PATHS = (
    "/api/turns", "/api/conversations/ID", "/api/runs", "/api/cases/ID", "/api/flush", "/api/events",
    "/metrics", "/healthz", "/readyz",
)  # fmt: skip
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
_MAX_CASE_BYTES = 1024 * 1024
_MAX_FLUSH_S = 600.0


class Control(Protocol):
    """What the API needs of the running proxy."""

    store: Store
    cases: CaseBook
    bus: EventBus
    suite: Suite | None

    async def flush(self, timeout_s: float) -> dict[str, int]:
        """Wait until everything captured is done; `pending` and `open` turns left."""

    def problems(self) -> list[str]:
        """Why the proxy is not ready; [] when it is."""

    def remarks(self) -> list[str]:
        """What does not work, though the proxy is ready."""


def admin_app(control: Control, registry: CollectorRegistry, token: str | None, names: HostNames) -> ASGIApp:
    """The ASGI application of the admin port. With a `token`, the token decides. Without one, requests for the name of
    another host or from a page of another site are refused: a browser may run on this machine, too."""
    api = _Api(control)
    app = Starlette(
        routes=[
            *health_routes(registry, control.problems, control.remarks),
            Route("/api/turns", api.turns),
            Route("/api/turns/{turn_id}", api.turn),
            Route("/api/conversations/{conversation_id:path}", api.conversation),
            Route("/api/runs", api.runs),
            Route("/api/runs/{name:path}", api.run),
            Route("/api/cases/{case_id:path}", api.put_case, methods=["PUT"]),
            Route("/api/cases/{case_id:path}", api.delete_case, methods=["DELETE"]),
            Route("/api/flush", api.flush, methods=["POST"]),
            Route("/api/events", api.events),
        ],
        exception_handlers={HTTPException: _error, StoreError: _store_error},
    )
    return guarded(app, token, names)


def guarded(app: ASGIApp, token: str | None, names: HostNames) -> ASGIApp:
    """`app` behind the token, or without one, behind the refusal of foreign names and sites."""
    return RequireToken(app, token) if token else BrowserGuard(app, names, open_paths=HEALTH_PATHS)


def health_routes(
    registry: CollectorRegistry, problems: Callable[[], list[str]], remarks: Callable[[], list[str]] = list
) -> list[Route]:
    """/healthz, /readyz and /metrics. The functions are those of `Control`."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        found = problems()
        return PlainTextResponse("\n".join([*(found or ["ready"]), *remarks()]) + "\n", 503 if found else 200)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


class _Api:
    def __init__(self, control: Control) -> None:
        self._control = control
        self._judging = asyncio.Lock()

    async def turns(self, request: Request) -> Response:
        query = request.query_params
        limit = query.get("limit", "100")
        if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
            raise HTTPException(400, f"limit: expected a number from 1 to 1000, got {limit!r}")
        selection = TurnQuery(
            run=query.get("run"),
            conversation=query.get("conversation"),
            case=query.get("case"),
            status=query.get("status"),
            limit=int(limit),
            cursor=query.get("cursor"),
        )
        page = await self._page(selection)
        return JSONResponse({"items": page.items, "next_cursor": page.next_cursor})

    async def _page(self, query: TurnQuery) -> Page:
        try:
            return await self._control.store.turns(query)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None

    async def turn(self, request: Request) -> Response:
        turn_id = request.path_params["turn_id"]
        turn = await self._control.store.turn(turn_id)
        if turn is None:
            raise HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")
        return JSONResponse(turn)

    async def conversation(self, request: Request) -> Response:
        conversation_id = request.path_params["conversation_id"]
        cursor = request.query_params.get("cursor")
        page = await self._page(TurnQuery(conversation=conversation_id, limit=1000, cursor=cursor))
        if not page.items:
            raise HTTPException(404, f"no turns of conversation {conversation_id!r}")
        evaluations = [
            {"run": scored.key.run, "case_id": scored.key.case_id, **result}
            for scored in await self._control.store.conversations(conversation=conversation_id)
            for result in scored.evaluations
        ]
        content = {"conversation_id": conversation_id, "turns": page.items, "evaluations": evaluations}
        return JSONResponse(content | {"next_cursor": page.next_cursor})

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

    async def flush(self, request: Request) -> Response:
        text = request.query_params.get("timeout", "30")
        try:
            timeout_s = float(text)
        except ValueError:
            timeout_s = -1.0
        if not 0 <= timeout_s <= _MAX_FLUSH_S:
            raise HTTPException(400, f"timeout: expected seconds from 0 to {_MAX_FLUSH_S:g}, got {text!r}")
        left = await self._control.flush(timeout_s)
        return JSONResponse({"done": left["pending"] == 0, **left}, 200 if left["pending"] == 0 else 504)

    async def events(self, _: Request) -> Response:
        async def stream() -> AsyncIterator[bytes]:
            async with self._control.bus.listen() as events:
                yield b": listening\n\n"
                while True:
                    try:
                        event = await asyncio.wait_for(events.get(), 15.0)
                    except TimeoutError:
                        yield b": ping\n\n"
                        continue
                    if event is None:
                        return
                    yield f"event: {event.name}\ndata: {json_text(event.data)}\n\n".encode()

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})


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


async def _error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for that only
    unknown = error.status_code == 404 and error.detail == "Not Found"  # starlette's word for a path without a route
    said = f"no such path; there are {', '.join(_PATHS)}" if unknown else error.detail
    return JSONResponse({"error": said}, error.status_code, headers=error.headers)


async def _store_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503)


class RequireToken:
    """Lets in who has the bearer token, and anybody to the two health paths."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in HEALTH_PATHS:
            given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scheme, _, token = given.partition(b" ")  # the scheme in any case: RFC 9110, section 11.1
            if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
                message = {"error": "a bearer token is needed: Authorization: Bearer <admin token>"}
                await JSONResponse(message, 401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
                return
        await self._app(scope, receive, send)
