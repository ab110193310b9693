"""The application of the admin port (Starlette): its routes, who may use them, and its errors."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..net.browser_guard import BrowserGuard, HostNames
from ..store import StoreError
from .annotations_api import AnnotationsApi
from .cases_api import CasesApi
from .control import Control
from .events_api import EventsApi
from .runs_api import RunsApi
from .turns_api import TurnsApi

_PATHS = (
    "/api/turns", "/api/conversations/ID", "/api/runs", "/api/cases/ID", "/api/flush", "/api/events",
    "/metrics", "/healthz", "/readyz",
)  # fmt: skip
HEALTH_PATHS = frozenset({"/healthz", "/readyz"})


def admin_app(control: Control, registry: CollectorRegistry, token: str | None, names: HostNames) -> ASGIApp:
    """The ASGI application of the admin port. With a `token`, the token decides. Without one, requests for the name of
    another host or from a page of another site are refused: a browser may run on this machine, too."""
    annotations = AnnotationsApi(control)
    turns, runs, cases, events = TurnsApi(control), RunsApi(control), CasesApi(control), EventsApi(control)
    app = Starlette(
        routes=[
            *health_routes(registry, control.problems, control.remarks),
            Route("/api/turns", turns.turns),
            Route("/api/turns/{turn_id}", turns.turn),
            Route("/api/turns/{turn_id}/annotations", annotations.annotations),
            Route("/api/turns/{turn_id}/annotations", annotations.annotate, methods=["POST"]),
            Route("/api/turns/{turn_id}/annotations/{annotation_id}", annotations.remove, methods=["DELETE"]),
            Route("/api/conversations/{conversation_id:path}", turns.conversation),
            Route("/api/runs", runs.runs),
            Route("/api/runs/{name:path}", runs.run),
            Route("/api/cases/{case_id:path}", cases.put_case, methods=["PUT"]),
            Route("/api/cases/{case_id:path}", cases.delete_case, methods=["DELETE"]),
            Route("/api/flush", turns.flush, methods=["POST"]),
            Route("/api/events", events.events),
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
