"""What a client sends to an agent and receives, as bytes, for those who observe it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import httpx
from google.protobuf.json_format import Error as ProtoJsonError
from google.protobuf.json_format import MessageToDict

Fields = Sequence[tuple[bytes, bytes]]
"""Header fields in their order, or metadata of gRPC."""


class ObservedExchange(Protocol):
    """Receives the response to one request. No method may raise."""

    def response(self, status: int, headers: Fields) -> None:
        """The header of the response arrived; `status` is that of HTTP, 200 for gRPC."""

    def data(self, data: bytes) -> None:
        """A piece of the body as received, or a message of gRPC as JSON."""

    def end(self, problem: str) -> None:
        """It ended; `problem` is the name of the error that ended it, or ""."""


class WireObserver(Protocol):
    """Receives the requests of a block. No method may raise."""

    def request(self, method: str, target: str, headers: Fields, body: bytes) -> ObservedExchange | None:
        """A request is sent; of gRPC, its message as JSON. None: its response is not observed."""


_observer: ContextVar[WireObserver | None] = ContextVar("wire_observer", default=None)


@contextmanager
def observing(observer: WireObserver | None) -> Iterator[None]:
    """Report to `observer` what clients send and receive in this task, and in those that it begins, in the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


class ObservedClient(httpx.AsyncClient):
    """Reports its requests, and the responses as they are read, to the observer of the task."""

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        observer = _observer.get()
        target = request.url.raw_path.decode("ascii", "replace")
        seen = observer.request(request.method, target, request.headers.raw, request.content) if observer else None
        if seen is None:
            return await super().send(request, stream=stream, **options)
        try:
            response = await super().send(request, stream=True, **options)
        except BaseException as error:
            seen.end(type(error).__name__)
            raise
        seen.response(response.status_code, response.headers.raw)
        response.stream = _ObservedStream(response.stream, seen)
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


class _ObservedStream(httpx.AsyncByteStream):
    def __init__(self, stream: Any, seen: ObservedExchange) -> None:
        self._stream = stream
        self._seen: ObservedExchange | None = seen

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                if self._seen is not None:
                    self._seen.data(chunk)
                yield chunk
        except Exception as error:
            self._end(type(error).__name__)
            raise
        self._end("")

    async def aclose(self) -> None:
        self._end("")
        await self._stream.aclose()

    def _end(self, problem: str) -> None:
        if self._seen is not None:
            self._seen.end(problem)
        self._seen = None


def grpc_interceptors() -> list[Any]:
    """Interceptors of a grpc.aio.Channel that report its calls. Requires grpcio."""
    import grpc.aio

    class Unary(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # grpcio has no types
        async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
            call = await continuation(details, request)
            if seen := _call_seen(details, request):
                with _reported(seen):
                    seen.data(_json(await call))
            return call

    class Streaming(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]  # grpcio has no types
        async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
            call = await continuation(details, request)
            seen = _call_seen(details, request)
            return call if seen is None else _messages(call, seen)

    return [Unary(), Streaming()]


async def _messages(call: Any, seen: ObservedExchange) -> AsyncIterator[Any]:
    with _reported(seen):
        async for message in call:
            seen.data(_json(message))
            yield message


def _call_seen(details: Any, request: Any) -> ObservedExchange | None:
    observer = _observer.get()
    if observer is None:
        return None
    target = details.method.decode() if isinstance(details.method, bytes) else details.method
    texts = [(name, value) for name, value in details.metadata or () if not name.endswith("-bin")]
    metadata = [(name.encode(), _bytes(value)) for name, value in texts]
    seen = observer.request("POST", target, [(b"content-type", b"application/grpc"), *metadata], _json(request))
    if seen is not None:
        seen.response(200, [(b"content-type", b"application/grpc")])
    return seen


@contextmanager
def _reported(seen: ObservedExchange) -> Iterator[None]:
    problem = ""
    try:
        yield
    except Exception as error:
        code = getattr(error, "code", None)
        problem = code().name if callable(code) else type(error).__name__
        raise
    finally:
        seen.end(problem)


def _json(message: Any) -> bytes:
    """The message as JSON; as it is where JSON cannot hold it (NaN), which is for others to complain about."""
    try:
        content = MessageToDict(message)
    except (ProtoJsonError, ValueError, RecursionError):
        return bytes(message.SerializeToString())
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
