"""The application of the admin port (Starlette): its routes, who may use them, its errors."""

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

from ..feature import features
from ..net.browser_guard import HostNames
from ..protocol.agent_card import WELL_KNOWN_PATHS
from ..store import StoreError
from .agent_status import failing_first
from .api_route import NoQuery, api_route, place_of
from .cases_api import CasesApi
from .control import Control
from .events_api import EventsApi
from .guard import METRICS_PATH, AdminGuard, AdminTokens, Pages, wants_page
from .runs_api import RunsApi
from .turn_changes_api import TurnChangesApi
from .turns_api import TurnsApi
from .wire_api import WireApi


def admin_app(
    control: Control,
    registry: CollectorRegistry,
    tokens: AdminTokens | None,
    names: HostNames,
    pages: Pages | None = None,
) -> ASGIApp:
    """The ASGI application of the admin port, which `AdminGuard` protects."""
    apis = TurnsApi, TurnChangesApi, WireApi, RunsApi, CasesApi, EventsApi
    routes = [
        *(route for feature in features() if feature.routes for route in feature.routes(control)),
        *(route for api in apis for route in api(control).routes()),
        api_route("GET", "/api/agents", partial(_agents, control)),
        *health_routes(registry, control.problems, control.remarks),
    ]
    places = [*(["/"] if pages else []), *sorted(set(map(place_of, routes)))]
    app = Starlette(
        routes=[*routes, *(pages.routes if pages else ())],
        exception_handlers={
            HTTPException: partial(_error, places, pages),
            StoreError: _store_error,
            ClientDisconnect: _client_gone,
        },
    )
    app.router.redirect_slashes = False
    return AdminGuard(app, tokens, names, pages)


def worker_app(registry: CollectorRegistry, problems: Callable[[], list[str]], tokens: AdminTokens | None) -> ASGIApp:
    """The ASGI application of the port of a worker. `problems` says why it takes no jobs."""
    return AdminGuard(Starlette(routes=health_routes(registry, problems)), tokens, HostNames())


def health_routes(
    registry: CollectorRegistry, problems: Callable[[], list[str]], remarks: Callable[[], list[str]] = list
) -> list[Route]:
    """/healthz, /readyz and /metrics. The functions are those of `Control`."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        found = problems()
        return PlainTextResponse("\n".join([*(found or ["ready"]), *remarks()]) + "\n", 503 if found else 200)

    async def metrics(_: Request, given: NoQuery) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    # Probes that were given a parameter must not fail for it.
    return [Route("/healthz", healthz), Route("/readyz", readyz), api_route("GET", METRICS_PATH, metrics)]


async def _agents(control: Control, _: Request, given: NoQuery) -> Response:
    reports = failing_first(await control.agent_statuses())
    return JSONResponse({"items": [report.to_dict() for report in reports], "next_cursor": None})


async def _error(places: Sequence[str], pages: Pages | None, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for that only
    said, headers = error.detail, error.headers
    if error.status_code == 404 and said == "Not Found":  # starlette's word for a path without a route
        if pages is not None and wants_page(request.scope):
            return pages.not_found(request)
        said = f"no such path; there are {', '.join(places)}"
        if request.url.path in WELL_KNOWN_PATHS:
            said = "the admin port of a2a-eval-proxy is no agent: clients use the address of --listen"
    elif error.status_code == 405:
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for route in routes for method in getattr(route, "methods", None) or ()}))
        said, headers = f"{request.method} is not allowed here; allowed: {allowed}", {"Allow": allowed}
    return JSONResponse({"error": said}, error.status_code, headers=headers)


async def _store_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503)


async def _client_gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)  # no client receives it
