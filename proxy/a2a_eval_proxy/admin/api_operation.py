"""Operations of the admin API: each declares its path, parameters and answers once.

The declaration validates requests, makes the route, and is written into the OpenAPI document. Bodies are read here too:
JSON of the API, forms of the pages.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Scope

from ..store.encoding import json_bytes

M = TypeVar("M", bound=BaseModel)

Schema = Mapping[str, Any]  # a JSON Schema (2020-12), as OpenAPI 3.1 has it

Given = Mapping[str, Any]
"""Values of the path and query parameters of a request; a parameter that is not given has its default, or None."""

Handler = Callable[[Request, Given], Awaitable[Response]]


@dataclass(frozen=True)  # without slots: `cached_property` needs a __dict__
class ApiParameter:
    """A parameter of the path, or a query parameter, whose values pydantic reads."""

    name: str
    description: str
    kind: Any = str
    """A type, as in an annotation."""
    default: Any = None

    @cached_property
    def _type(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.kind)

    @property
    def schema(self) -> Schema:
        return self._type.json_schema() | ({} if self.default is None else {"default": self.default})

    def read(self, text: str) -> Any:
        """The value of a query parameter. Raises HTTPException 400, which names what is accepted."""
        try:
            return self._type.validate_python(text)
        except ValidationError as error:
            raise HTTPException(400, f"{self.name}: {_expected(error)}, got {text[:100]!r}") from None


def _expected(error: ValidationError) -> str:
    """What was expected, as pydantic says it of the first mistake."""
    return re.sub(r"^\w+ should (be|have)\b", "expected", error.errors()[0]["msg"])


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """A method of a path.

    A path parameter is a segment of the path: `%2F` in it is a slash of the value. A last parameter with `:path`, as in
    `/api/runs/{name:path}`, also takes slashes as they are; other operations on the path go first.
    """

    method: str
    path: str
    summary: str
    handle: Handler
    answers: Mapping[int, str]
    """What each status means; the JSON of answers is on the page of the admin API."""
    parameters: Sequence[ApiParameter] = ()  # those of the path, then those of the query
    body: type[BaseModel] | Schema | None = None  # the JSON that the request must have as its body
    media_type: str = "application/json"
    is_open: bool = False
    """Whether everybody may use it. It ignores unknown parameters: a probe that was given some must not fail for it."""

    @property
    def name(self) -> str:
        return str(getattr(self.handle, "__name__"))  # noqa: B009

    @property
    def in_path(self) -> list[str]:
        return re.findall(r"{(\w+)", self.path)

    @property
    def in_query(self) -> dict[str, ApiParameter]:
        return {one.name: one for one in self.parameters if one.name not in self.in_path}

    @property
    def place(self) -> str:
        """The path as people and OpenAPI write it, such as `/api/runs/{name}`."""
        return self.path.replace(":path", "")

    def route(self) -> Route:
        async def endpoint(request: Request) -> Response:
            return await self.handle(request, {**self._query(request), **request.path_params})

        return _SegmentRoute(self.path, endpoint, methods=[self.method])

    def _query(self, request: Request) -> Given:
        declared = list(self.in_query.values())
        items = [] if self.is_open else request.query_params.multi_items()
        return query_values(declared, items, f"{self.method} {self.place}")


def query_values(declared: Iterable[ApiParameter], items: Iterable[tuple[str, str]], place: str) -> Given:
    """The values of declared parameters in the items of a query; `place` is what has them.

    Raises HTTPException (400) for unknown, repeated and wrong ones.
    """
    by_name = {one.name: one for one in declared}
    values = {name: one.default for name, one in by_name.items()}
    seen = set[str]()
    for name, text in items:
        if name not in by_name:
            known = f"it has {', '.join(by_name)}" if by_name else "it has none"
            raise HTTPException(400, f"{name[:100]!r} is no parameter of {place}; {known}")
        if name in seen:
            raise HTTPException(400, f"{name}: given more than once")
        seen.add(name)
        values[name] = by_name[name].read(text)
    return values


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


_MOST_FIELDS = 100


_OBJECT = TypeAdapter(dict[str, Any])


async def json_object(request: Request, what: str, most: int) -> tuple[dict[str, Any], int]:
    """The JSON object in the body, and how many bytes it has: at most `most`. `what` names it in messages.

    Raises HTTPException (400, 413).
    """
    body = await _body(request, what, most)
    try:
        return _OBJECT.validate_json(body), len(body)
    except ValidationError as error:
        raise HTTPException(400, f"the body must be a JSON object, {what}: {_expected(error)}") from None


def validated(model: type[M], given: Mapping[str, Any]) -> M:
    """What was given as a value of a model. Raises HTTPException (400), which names the first mistake."""
    try:
        return model.model_validate(given)
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


async def form_of(request: Request, most: int = 64 * 1024) -> dict[str, str]:
    """The fields of the form in the body, of at most `most` bytes, that are not empty; of several values the first.

    Raises HTTPException (400, 413).
    """
    body = await _body(request, "the form", most)

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    fields: dict[str, str] = {}
    async with Request(request.scope, receive).form(max_fields=_MOST_FIELDS, max_part_size=most) as form:
        for name, value in form.multi_items():
            if value and isinstance(value, str):
                fields.setdefault(name, value.replace("\r\n", "\n"))
    return fields


async def _body(request: Request, what: str, most: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"{what} may have {most} bytes at most")
    return body
