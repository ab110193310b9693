"""Routes of the admin API, whose parameters pydantic reads, and what requests have as a body: JSON of the API, forms of
the pages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from ..store.encoding import json_bytes

M = TypeVar("M", bound=BaseModel)


class NoQuery(BaseModel):
    """Of a route without query parameters."""


def api_route(
    method: str, path: str, handle: Callable[..., Awaitable[Response]], query: type[BaseModel] = NoQuery
) -> Route:
    """`handle` receives the request, the parameters of the path by their names, and `given`, those of the query.

    A path parameter is a segment of the path: `%2F` in it is a slash of the value. A last parameter with `:path`, as in
    `/api/runs/{name:path}`, also takes slashes as they are; other routes of the path go first. Query parameters that
    `query` does not declare, that it refuses, or that are repeated, are answered with 400.
    """

    async def endpoint(request: Request) -> Response:
        for name in request.query_params:
            if name not in query.model_fields:
                known = f"it has {', '.join(query.model_fields)}" if query.model_fields else "it has none"
                raise HTTPException(400, f"{name[:100]!r} is no parameter of {method} {place_of(route)}; {known}")
            if len(request.query_params.getlist(name)) > 1:
                raise HTTPException(400, f"{name}: given more than once")
        return await handle(request, given=validated(query, request.query_params), **request.path_params)

    route = _SegmentRoute(path, endpoint, methods=[method])
    return route


def place_of(route: Route) -> str:
    """Its path as people write it, such as `/api/runs/{name}`."""
    return route.path.replace(":path", "")


def json_response(value: Any) -> Response:
    """JSON of values that may be large, or that may not be JSON, such as NaN in a suite."""
    return Response(json_bytes(value), media_type="application/json")


class _SegmentRoute(Route):
    """Finds segments in the path as it was sent, before `%2F` becomes a slash."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw = scope.get("raw_path")
        if raw is None or scope["type"] != "http":
            return super().matches(scope)
        match, found = super().matches({**scope, "path": raw.partition(b"?")[0].decode("utf-8", "replace")})
        if match is not Match.NONE:
            found["path_params"] = {name: unquote(value) for name, value in found["path_params"].items()}
        return match, found


_OBJECT = TypeAdapter(dict[str, Any])


async def json_object(request: Request, what: str, most: int) -> tuple[dict[str, Any], int]:
    """The JSON object in the body, and how many bytes it has: at most `most`. `what` names it in messages.

    Raises HTTPException (400, 413).
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"{what} may have {most} bytes at most")
    try:
        return _OBJECT.validate_json(body), len(body)
    except ValidationError as error:
        raise HTTPException(400, f"the body must be a JSON object, {what}: {_expected(error)}") from None


def _expected(error: ValidationError) -> str:
    """What was expected, as pydantic says it of the first mistake."""
    return re.sub(r"^\w+ should (be|have)\b", "expected", error.errors()[0]["msg"])


def validated(model: type[M], given: Mapping[str, Any]) -> M:
    """What was given as a value of a model. Raises HTTPException (400), which names the first mistake."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        match first["type"]:
            case "extra_forbidden":
                said = f"no such field; there are {', '.join(model.model_fields)}"
            case "missing":
                said = "required"
            case _:
                said = f"{_expected(error)}, got {first['input']!r:.80}"
        raise HTTPException(400, f"{first['loc'][0]!s:.80}: {said}") from None


async def form_of(request: Request, fields: int = 100, most: int = 64 * 1024) -> dict[str, str]:
    """The fields of the form in the body that are not empty; of several values the first.

    Raises HTTPException (400) for more `fields`, and for one of more than `most` bytes.
    """
    async with request.form(max_files=0, max_fields=fields, max_part_size=most) as form:
        first_last = reversed(form.multi_items())
        return {name: value.replace("\r\n", "\n") for name, value in first_last if value and isinstance(value, str)}
