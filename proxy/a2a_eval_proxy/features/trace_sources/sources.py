"""Where traces are kept: Tempo and Jaeger with their HTTP APIs, and files of OTLP JSON."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

import httpx
from a2a_tool_capture.environment_proxies import EnvironmentTransport
from a2a_tool_capture.secret_references import open_regular
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ...errors import UNREACHABLE, ConfigError
from ...otlp.decoding import JSON, PROTOBUF, BodyError, read_request
from ...settings.parsing import parse_url

_MAX_BYTES = 32 * 1024 * 1024
"""Of an answer, and of a line of a file."""
_MAX_FILE_BYTES = 256 * 1024 * 1024
"""A file is read from its beginning for each question."""
_ANSWER_S = 10.0

_TEMPO = 3200, "/api/traces/", "application/protobuf"
"""The port and the path of its API, and what it is asked for. The second version of it leaves out a part of a large
trace."""
_JAEGER = 16686, "/api/v3/traces/", JSON
_RESULT = re.compile(rb'\s*\{\s*"result"\s*:(.*)\}\s*', re.DOTALL)
"""A trace as Jaeger wraps it."""

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


@asynccontextmanager
async def trace_source(location: str, headers: Mapping[str, str]) -> AsyncIterator[FindTrace]:
    """The source at a location as `--traces` has it. `headers` are sent with each request.

    Raises ConfigError for a location that is none, and SourceUnreachableError for a file that cannot be read.
    """
    scheme, _, rest = location.partition(":")
    if scheme == "otlp-file":
        try:
            first = await asyncio.to_thread(Path(rest).stat)
        except OSError as error:
            raise SourceUnreachableError(f"{location} cannot be read: {error.strerror}") from None
        yield lambda trace_id: asyncio.to_thread(_lines_of, location, rest, first, trace_id.encode())
        return
    http_scheme = "https" if scheme.endswith("s") else "http"
    try:
        url = httpx.URL(parse_url(f"{http_scheme}:{rest}"))
    except ValueError as error:
        raise ConfigError(f"--traces: {error}; {scheme}: stands for {http_scheme}:") from None
    port, path, accept = _TEMPO if scheme.startswith("tempo") else _JAEGER
    if url.port is None and http_scheme == "http":
        url = url.copy_with(port=port)
    sent = {**headers, "Accept": accept, "Accept-Encoding": "identity"}
    async with httpx.AsyncClient(transport=EnvironmentTransport(), headers=sent, timeout=None) as http:  # noqa: S113  # see _ask
        base = str(url).rstrip("/")
        yield partial(_ask, http, f"{location} ({base})", base + path)


async def _ask(http: httpx.AsyncClient, name: str, url: str, trace_id: str) -> ExportTraceServiceRequest:
    content = bytearray()
    try:
        async with asyncio.timeout(_ANSWER_S), http.stream("GET", url + trace_id) as answer:
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return ExportTraceServiceRequest()
            if answer.status_code != HTTPStatus.OK:
                raise _refusal(name, answer)
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > _MAX_BYTES:
                    raise TraceSourceError(f"{name} answers with more than {_MAX_BYTES} bytes")
    except (httpx.HTTPError, TimeoutError) as error:
        why = str(error) or f"no answer within {_ANSWER_S:g} s"
        raise SourceUnreachableError(f"{name} cannot be reached: {why}", final=False) from error
    kind = answer.headers.get("content-type", "unnamed content")
    problem = f"{name} answers with {kind}, which is no trace; is it the address of its HTTP API?"
    if http.headers["accept"] != JSON:
        return await asyncio.to_thread(_read, bytes(content), PROTOBUF, problem)
    result = _RESULT.fullmatch(content)
    return await asyncio.to_thread(_read, result[1] if result else b"", JSON, problem)


def _refusal(name: str, answer: httpx.Response) -> TraceSourceError:
    status = answer.status_code
    refused = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    advice = "; give its credentials with --traces-header" if refused else ""
    is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    return TraceSourceError(f"{name} answers {status} {answer.reason_phrase}{advice}", final=not is_passing)


def _read(content: bytes, content_type: str, problem: str) -> ExportTraceServiceRequest:
    try:
        return read_request(content, ExportTraceServiceRequest, content_type)  # type: ignore[no-any-return]
    except BodyError as error:
        raise TraceSourceError(f"{problem} ({error})") from error


def _lines_of(name: str, path: str, first: os.stat_result, trace_id: bytes) -> ExportTraceServiceRequest:
    found = ExportTraceServiceRequest()
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if not os.path.samestat(status, first) or status.st_size > _MAX_FILE_BYTES:
            raise TraceSourceError(f"{name} was replaced, or exceeds {_MAX_FILE_BYTES} bytes; rotate it between runs")
        while line := file.readline(_MAX_BYTES):
            if not line.startswith(b"{") or len(line) == _MAX_BYTES:
                raise TraceSourceError(f"{name} is not OTLP JSON, uncompressed, in lines of up to {_MAX_BYTES} bytes")
            if trace_id in line and line.endswith(b"\n"):  # else it is being written
                found.MergeFrom(_read(line, JSON, f"{name} has a line that is no trace"))
    return found
