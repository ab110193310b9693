"""The application of the admin port (Starlette): its routes, who may use them, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..net.browser_guard import HostNames
from ..store import StoreError
from .annotations_api import AnnotationsApi
from .cases_api import CasesApi
from .control import Control
from .events_api import EventsApi
from .guard import AdminGuard, PageAccess
from .runs_api import RunsApi
from .turns_api import TurnsApi

_PATHS = (
    "/", "/api/turns", "/api/conversations/ID", "/api/runs", "/api/cases/ID", "/api/flush", "/api/events",
    "/metrics", "/healthz", "/readyz",
)  # fmt: skip


def admin_app(
    control: Control,
    registry: CollectorRegistry,
    token: str | None,
    names: HostNames,
    pages: Sequence[Route] = (),
    access: PageAccess | None = None,
) -> ASGIApp:
    """The ASGI application of the admin port, which `AdminGuard` protects. `pages` are further routes."""
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
            *pages,
        ],
        exception_handlers={HTTPException: _error, StoreError: _store_error},
    )
    return AdminGuard(app, token, names, access)


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
