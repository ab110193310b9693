"""The application of the admin port (Starlette): its routes, who may use them, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from ..net.browser_guard import HostNames
from ..store import StoreError
from .annotations_api import AnnotationsApi
from .api_operation import ApiAnswer, ApiOperation, Given, Handler
from .cases_api import CasesApi
from .control import Control
from .events_api import EventsApi
from .guard import HEALTH_PATHS, AdminGuard, PageAccess
from .openapi import openapi_document
from .runs_api import RunsApi
from .turn_cases_api import TurnCasesApi
from .turns_api import TurnsApi
from .wire_api import WireApi


def admin_app(
    control: Control,
    registry: CollectorRegistry,
    token: str | None,
    names: HostNames,
    pages: Sequence[Route] = (),
    access: PageAccess | None = None,
) -> ASGIApp:
    """The ASGI application of the admin port, which `AdminGuard` protects. `pages` are further routes."""
    apis = TurnsApi, AnnotationsApi, WireApi, TurnCasesApi, RunsApi, CasesApi, EventsApi
    operations = [
        *(operation for api in apis for operation in api(control).operations()),
        *health_operations(registry, control.problems, control.remarks),
    ]
    operations.append(_document(operations))  # which describes itself, too
    places = [*(["/"] if pages else []), *dict.fromkeys(operation.place for operation in operations)]
    app = Starlette(
        routes=[*(operation.route() for operation in operations), *pages],
        exception_handlers={
            HTTPException: partial(_error, places),
            StoreError: _store_error,
            ClientDisconnect: _client_gone,
        },
    )
    app.router.redirect_slashes = False
    return AdminGuard(app, token, names, access)


def worker_app(registry: CollectorRegistry, problems: Callable[[], list[str]], token: str | None) -> ASGIApp:
    """The ASGI application of the port of a worker. `problems` says why it takes no jobs."""
    routes = [operation.route() for operation in health_operations(registry, problems)]
    return AdminGuard(Starlette(routes=routes), token, HostNames())


def health_operations(
    registry: CollectorRegistry, problems: Callable[[], list[str]], remarks: Callable[[], list[str]] = list
) -> list[ApiOperation]:
    """/healthz, /readyz and /metrics. The functions are those of `Control`."""

    async def healthz(_: Request, given: Given) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request, given: Given) -> Response:
        found = problems()
        return PlainTextResponse("\n".join([*(found or ["ready"]), *remarks()]) + "\n", 503 if found else 200)

    async def metrics(_: Request, given: Given) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def operation(path: str, summary: str, handle: Handler, *answers: tuple[int, str]) -> ApiOperation:
        texts = {status: ApiAnswer(description, media_type="text/plain") for status, description in answers}
        return ApiOperation("GET", path, summary, handle, texts, is_open=path in HEALTH_PATHS)

    not_ready = (503, "It does not serve; the lines say why")
    return [
        operation("/healthz", "Whether the process is alive", healthz, (200, "It is")),
        operation("/readyz", "Whether the process serves", readyz, (200, "It does"), not_ready),
        operation("/metrics", "Metrics in the Prometheus format", metrics, (200, "The metrics")),
    ]


def _document(operations: Sequence[ApiOperation]) -> ApiOperation:
    """The OpenAPI document of these operations."""

    async def openapi(_: Request, given: Given) -> Response:
        return JSONResponse(openapi_document(operations))

    answer = ApiAnswer("The document", {"type": "object", "required": ["openapi", "paths"]})
    return ApiOperation("GET", "/api/openapi.json", "Get this document", openapi, {200: answer})


async def _error(places: Sequence[str], request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for that only
    said, headers = error.detail, error.headers
    if error.status_code == 404 and said == "Not Found":  # starlette's word for a path without a route
        said = f"no such path; there are {', '.join(places)}"
    elif error.status_code == 405:
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for route in routes for method in route.methods or ()}))
        said, headers = f"{request.method} is not allowed here; allowed: {allowed}", {"Allow": allowed}
    return JSONResponse({"error": said}, error.status_code, headers=headers)


async def _store_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503)


async def _client_gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)  # no client receives it
