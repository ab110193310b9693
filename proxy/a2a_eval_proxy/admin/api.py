"""The application of the admin port (Starlette): its routes, who may use them, its errors, and its description.

The description is an OpenAPI document (https://spec.openapis.org/oas/v3.1.1), made from its operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from a2a_tool_capture import __version__
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp

from ..net.browser_guard import HostNames
from ..protocol.agent_card import WELL_KNOWN_PATHS
from ..store import StoreError
from .agents_api import AgentsApi
from .api_operation import ApiOperation, ApiParameter, Given, Handler
from .cases_api import CasesApi
from .control import Control
from .events_api import EventsApi
from .guard import HEALTH_PATHS, METRICS_PATH, AdminGuard, AdminTokens, Pages
from .runs_api import RunsApi
from .turn_changes_api import TurnChangesApi
from .turns_api import TurnsApi
from .wire_api import WireApi

_REFUSED = {
    400: "A parameter or the body is wrong or unknown",
    401: "The admin token is missing or wrong",
    403: "A page of another site sends the request, or the sender may not do this",
    421: "The Host header names another host",
    429: "Too many wrong tokens came from this address",
    503: "The store cannot be read or written now",
}
"""Answers of every operation that is not open."""
_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "What is wrong, and what is expected"}},
    "required": ["error"],
}
_REF = {"$ref": "#/components/schemas/Error"}
_DESCRIPTION = (
    "Captured turns, their results, runs and cases of a2a-eval-proxy. A segment of a path may contain a slash as `%2F`."
)


def openapi_document(operations: Iterable[ApiOperation]) -> dict[str, Any]:
    """The document as JSON data. A proxy without admin token needs none of the `security`."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.place, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "a2a-eval-proxy admin API", "version": __version__, "description": _DESCRIPTION},
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "The admin token"}},
        },
    }


def _operation(operation: ApiOperation) -> dict[str, Any]:
    answers = {**({} if operation.is_open else _REFUSED), **operation.answers}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [_parameter(one, operation) for one in operation.parameters],
        "responses": {
            str(status): {"description": said, **_content(operation, status)}
            for status, said in sorted(answers.items())
        },
    }
    if body := operation.body:
        schema = body if isinstance(body, Mapping) else body.model_json_schema()
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _content(operation: ApiOperation, status: int) -> dict[str, Any]:
    if status == 204:
        return {}
    is_refused = not operation.is_open and (status in _REFUSED or 400 <= status < 500)
    media_type, schema = ("application/json", _REF) if is_refused else (operation.media_type, {})
    return {"content": {media_type: {"schema": schema}}}


def _parameter(parameter: ApiParameter, operation: ApiOperation) -> dict[str, Any]:
    in_path = parameter.name in operation.in_path
    described: dict[str, Any] = {
        "name": parameter.name,
        "in": "path" if in_path else "query",
        "required": in_path,
        "description": parameter.description,
        "schema": parameter.schema,
    }
    if parameter.schema.get("type") == "array":
        described |= {"style": "form", "explode": False}  # with commas
    return described


def admin_app(
    control: Control,
    registry: CollectorRegistry,
    tokens: AdminTokens | None,
    names: HostNames,
    pages: Pages | None = None,
) -> ASGIApp:
    """The ASGI application of the admin port, which `AdminGuard` protects."""
    apis = TurnsApi, TurnChangesApi, WireApi, RunsApi, CasesApi, EventsApi, AgentsApi
    operations = [
        *(operation for api in apis for operation in api(control).operations()),
        *health_operations(registry, control.problems, control.remarks),
    ]
    operations.append(_document(operations))  # which describes itself, too
    places = [*(["/"] if pages else []), *dict.fromkeys(operation.place for operation in operations)]
    app = Starlette(
        routes=[*(operation.route() for operation in operations), *(pages.routes if pages else ())],
        exception_handlers={
            HTTPException: partial(_error, places),
            StoreError: _store_error,
            ClientDisconnect: _client_gone,
        },
    )
    app.router.redirect_slashes = False
    return AdminGuard(app, tokens, names, pages.access if pages else None)


def worker_app(registry: CollectorRegistry, problems: Callable[[], list[str]], tokens: AdminTokens | None) -> ASGIApp:
    """The ASGI application of the port of a worker. `problems` says why it takes no jobs."""
    routes = [operation.route() for operation in health_operations(registry, problems)]
    return AdminGuard(Starlette(routes=routes), tokens, HostNames())


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
        return ApiOperation(
            "GET", path, summary, handle, dict(answers), media_type="text/plain", is_open=path in HEALTH_PATHS
        )

    not_ready = (503, "It does not serve; the lines say why")
    return [
        operation("/healthz", "Whether the process is alive", healthz, (200, "It is")),
        operation("/readyz", "Whether the process serves", readyz, (200, "It does"), not_ready),
        operation(METRICS_PATH, "Metrics in the Prometheus format", metrics, (200, "The metrics")),
    ]


def _document(operations: Sequence[ApiOperation]) -> ApiOperation:

    async def openapi(_: Request, given: Given) -> Response:
        return JSONResponse(openapi_document(operations))

    return ApiOperation("GET", "/api/openapi.json", "Get this document", openapi, {200: "The document"})


async def _error(places: Sequence[str], request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  registered for that only
    said, headers = error.detail, error.headers
    if error.status_code == 404 and said == "Not Found":  # starlette's word for a path without a route
        said = f"no such path; there are {', '.join(places)}"
        if request.url.path in WELL_KNOWN_PATHS:
            said = "the admin port of a2a-eval-proxy is no agent: clients use the address of --listen"
    elif error.status_code == 405:
        routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        allowed = ", ".join(sorted({method for route in routes for method in route.methods or ()}))
        said, headers = f"{request.method} is not allowed here; allowed: {allowed}", {"Allow": allowed}
    return JSONResponse({"error": said}, error.status_code, headers=headers)


async def _store_error(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503)


async def _client_gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)  # no client receives it
