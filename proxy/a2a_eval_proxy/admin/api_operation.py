"""Operations of the admin API: each declares its path, parameters and answers once.

The declaration validates requests, makes the route, and is written into the OpenAPI document. Bodies are read here too:
JSON of the API, forms of the pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from ..store.encoding import json_bytes

Schema = Mapping[str, Any]  # a JSON Schema (2020-12), as OpenAPI 3.1 has it
TEXT: Schema = {"type": "string"}

Given = Mapping[str, Any]
"""Values of the path and query parameters of a request; a parameter that is not given has its default, or None."""

Handler = Callable[[Request, Given], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ApiParameter:
    """A parameter of the path, or a query parameter. Its schema says which values are accepted."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: TEXT)

    def read(self, text: str) -> Any:
        """The value of a query parameter. Raises HTTPException 400, which names what is accepted."""
        value = _read(self.schema, text)
        if value is None:
            raise HTTPException(400, f"{self.name}: expected {expected(self.schema)}, got {text[:100]!r}")
        return value


def expected(schema: Schema) -> str:
    """What a schema of a parameter accepts, in words."""
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    match schema["type"]:
        case "array":
            return f"{expected(schema['items'])}, or several of them with commas between"
        case "string":
            return f"a text of at most {schema['maxLength']} characters" if "maxLength" in schema else "a text"
        case _:
            whole = "a whole number" if schema["type"] == "integer" else "a number"
            return f"{whole} from {schema['minimum']} to {schema['maximum']}"


def _read(schema: Schema, text: str) -> Any:
    """The value that `text` has by a schema; None if the schema does not accept it."""
    if "enum" in schema:
        return text if text in schema["enum"] else None
    match schema["type"]:
        case "array":
            items = [_read(schema["items"], item) for item in text.split(",")]
            return None if None in items else items
        case "string":
            return text if len(text) <= schema.get("maxLength", len(text)) else None
        case "integer":
            number: float = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else -1
        case _:
            try:
                number = float(text)
            except ValueError:
                return None
    return number if schema["minimum"] <= number <= schema["maximum"] else None


def choice(values: Sequence[str], default: str | None = None) -> Schema:
    """The schema of a parameter with a fixed set of values."""
    return {"type": "string", "enum": list(values)} | ({} if default is None else {"default": default})


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A response: what it means, its media type, and the schema of its JSON. Without a media type it has no body."""

    description: str
    schema: Schema | None = None
    media_type: str | None = "application/json"


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
    answers: Mapping[int, ApiAnswer]
    parameters: Sequence[ApiParameter] = ()  # those of the path, then those of the query
    body: Schema | None = None  # schema of the JSON that the request must have as its body
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
    values = {name: one.schema.get("default") for name, one in by_name.items()}
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


async def json_object(request: Request, what: str, most: int) -> tuple[dict[str, Any], int]:
    """The JSON object in the body, and how many bytes it has: at most `most`. `what` names it in messages.

    Raises HTTPException (400, 413).
    """
    body = await _body(request, what, most)
    try:
        data = json.loads(body)
        if b"\\u" in body:
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise HTTPException(400, f"the body has half of a surrogate pair, {half!r}, which is no character") from None
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise HTTPException(400, f"the body must be a JSON object: {what}")
    return data, len(body)


async def form_of(request: Request, most: int = 64 * 1024) -> dict[str, str]:
    """The fields of the form in the body, of at most `most` bytes, that are not empty; of several values the first.

    Raises HTTPException (400, 413).
    """
    body = await _body(request, "the form", most)
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), errors="replace", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HTTPException(400, f"the form may have {_MOST_FIELDS} fields at most") from None
    return {name: values[0].replace("\r\n", "\n") for name, values in fields.items()}


class UploadedFile(NamedTuple):
    name: str
    media_type: str
    content: bytes


_BOUNDARY = re.compile(r'multipart/form-data *;.*\bboundary=(?:"([^"]+)"|([^;\s]+))', re.IGNORECASE)
_NAME, _FILE, _TYPE = (
    re.compile(form, re.IGNORECASE)
    for form in (r'[; ]name="([^"]*)"', r'[; ]filename="([^"]*)"', r"^content-type: *([^;\s]+)")
)


async def upload_of(request: Request, most: int) -> tuple[dict[str, str], list[UploadedFile]]:
    """The fields of a form with files (RFC 7578, as browsers write it) in the body, of at most `most` bytes, and its
    files; other forms are read as by `form_of`."""
    boundary = _BOUNDARY.match(request.headers.get("content-type", ""))
    if boundary is None:
        return await form_of(request, most), []
    fields: dict[str, str] = {}
    files = []
    delimiter = b"\r\n--" + (boundary[1] or boundary[2]).encode()
    _, *parts = (b"\r\n" + await _body(request, "the form", most)).split(delimiter)
    for part in parts[:_MOST_FIELDS]:
        head, _, content = part.partition(b"\r\n\r\n")
        lines = head.decode("utf-8", "replace").split("\r\n")
        name, file, kind = (
            next((found[1] for line in lines if (found := form.search(line))), "") for form in (_NAME, _FILE, _TYPE)
        )
        if file:
            files.append(UploadedFile(unquote(file), kind or "application/octet-stream", content))
        elif name and content:
            fields.setdefault(name, content.decode("utf-8", "replace").replace("\r\n", "\n"))
    return fields, files


async def _body(request: Request, what: str, most: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise HTTPException(413, f"{what} may have {most} bytes at most")
    return body
