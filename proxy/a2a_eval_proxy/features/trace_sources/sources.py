"""Where traces are kept: Tempo and Jaeger with their HTTP APIs, and files of OTLP JSON."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

import httpx
from a2a_tool_capture.environment_proxies import EnvironmentTransport
from a2a_tool_capture.secret_references import open_regular
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ...errors import UNREACHABLE, ConfigError
from ...otlp.decoding import JSON, PROTOBUF, BodyError, media_type, read_request
from ...settings.parsing import parse_url

_MAX_BYTES = 32 * 1024 * 1024
"""Of one trace: of an answer, or of the lines of a file that have its spans."""

_MAX_FILE_BYTES = 1024 * 1024 * 1024
"""A file is read from its beginning for each question."""

_ANSWER_S = 10.0

_RESULT = re.compile(rb'\s*\{\s*"result"\s*:(.*)\}\s*', re.DOTALL)

FindTrace = Callable[[str], Awaitable[ExportTraceServiceRequest]]
"""What there is so far of the trace with this id, perhaps among others: nothing is no error. Raises
TraceSourceError."""


class TraceSourceError(Exception):
    """A source gives no trace; the message says which source, and why. `final`: to ask it again would not help."""

    exit_code = UNREACHABLE

    def __init__(self, message: str, *, final: bool = True) -> None:
        super().__init__(message)
        self.final = final


class SourceUnreachableError(TraceSourceError):
    """Nobody answers there, or there is no such file."""


class _Api(NamedTuple):
    """How a product is asked for a trace."""

    port: int
    path: str
    accept: str
    content_types: tuple[str, ...]
    """Of its answers; the last one is what they are."""


_APIS = {
    # The first API of Tempo fails where a trace is too large; the second one leaves a part of it out.
    "tempo": _Api(3200, "/api/traces/", "application/protobuf", ("application/protobuf", PROTOBUF)),
    # Jaeger does not say that its answers are JSON.
    "jaeger": _Api(16686, "/api/v3/traces/", JSON, ("text/plain", JSON)),
}


@asynccontextmanager
async def trace_source(location: str, headers: Mapping[str, str]) -> AsyncIterator[FindTrace]:
    """The source at a location as `--traces` has it. `headers` are sent with each request.

    Raises ConfigError for a location that is none.
    """
    scheme, _, rest = location.partition(":")
    if scheme == "otlp-file":
        with _open(location, rest) as file:
            first = os.fstat(file.fileno())
            yield lambda trace_id: asyncio.to_thread(_in_file, location, rest, first, trace_id)
        return
    api = _APIS[scheme.removesuffix("s")]
    secure = scheme.endswith("s")
    try:
        url = urlsplit(parse_url(f"http{'s' if secure else ''}:{rest}"))
    except ValueError:
        shown = "one with a user name: send credentials with --traces-header" if "@" in rest else repr(location)
        raise ConfigError(f"--traces: expected {scheme}://HOST[:PORT][/PREFIX], got {shown}") from None
    if url.port is None and not secure:
        url = url._replace(netloc=f"{url.netloc}:{api.port}")
    sent = {**headers, "Accept": api.accept, "Accept-Encoding": "identity"}
    async with httpx.AsyncClient(transport=EnvironmentTransport(), headers=sent, timeout=None) as http:  # noqa: S113  # see _ask
        yield partial(_ask, http, location, url.geturl() + api.path, api)


async def _ask(http: httpx.AsyncClient, name: str, url: str, api: _Api, trace_id: str) -> ExportTraceServiceRequest:
    content = bytearray()
    try:
        async with asyncio.timeout(_ANSWER_S), http.stream("GET", url + trace_id) as answer:
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return ExportTraceServiceRequest()
            _check(name, answer, api)
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > _MAX_BYTES:
                    raise TraceSourceError(f"{name} has more than {_MAX_BYTES} bytes of a trace")
    except TimeoutError as error:
        raise SourceUnreachableError(f"{name} does not answer within {_ANSWER_S:g} s", final=False) from error
    except httpx.HTTPError as error:
        raise SourceUnreachableError(f"{name} cannot be reached: {error or repr(error)}", final=False) from error
    return await asyncio.to_thread(_read, name, bytes(content), api.content_types[-1])


def _check(name: str, answer: httpx.Response, api: _Api) -> None:
    status, kind = answer.status_code, media_type(answer.headers.get("content-type", ""))
    if status != HTTPStatus.OK:
        refused = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        advice = "; give its credentials with --traces-header" if refused else ""
        is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
        raise TraceSourceError(f"{name} answers {status} {answer.reason_phrase}{advice}", final=not is_passing)
    if kind not in api.content_types:
        raise TraceSourceError(f"{name} answers with {kind or 'nothing'}, no trace; is it the address of its HTTP API?")


def _read(name: str, content: bytes, content_type: str) -> ExportTraceServiceRequest:
    result = _RESULT.fullmatch(content) if content_type == JSON else None  # as Jaeger wraps it
    try:
        return read_request(result[1] if result else content, ExportTraceServiceRequest, content_type)  # type: ignore[no-any-return]
    except BodyError as error:
        raise TraceSourceError(f"{name} has a trace that cannot be read: {error}") from error


def _open(name: str, path: str) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        raise SourceUnreachableError(f"{name} cannot be read: {error.strerror}") from error


def _in_file(name: str, path: str, first: os.stat_result, trace_id: str) -> ExportTraceServiceRequest:
    found = ExportTraceServiceRequest()
    with _open(name, path) as file:
        status = os.fstat(file.fileno())
        if not os.path.samestat(status, first):
            raise TraceSourceError(
                f"{name} was replaced by another file: spans may be in the first one; rotate it later"
            )
        if status.st_size > _MAX_FILE_BYTES:
            raise TraceSourceError(f"{name} has more than {_MAX_FILE_BYTES} bytes")
        while line := file.readline(_MAX_BYTES):
            if not line.startswith(b"{") or len(line) == _MAX_BYTES:
                raise TraceSourceError(f"{name} is not OTLP JSON, uncompressed, in lines of up to {_MAX_BYTES} bytes")
            if trace_id.encode() in line and line.endswith(b"\n"):  # else it is being written
                found.MergeFrom(_read(name, line, JSON))
            if found.ByteSize() > _MAX_BYTES:
                raise TraceSourceError(f"{name} has more than {_MAX_BYTES} bytes of a trace")
    return found
