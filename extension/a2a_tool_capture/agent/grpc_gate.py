"""gRPC interceptor that lets only known callers activate the extension."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import grpc
import grpc.aio

from ..spec import EXTENSIONS_HEADERS, strip_header
from .asgi_gate import KnownTokens, activation_refused


class ActivationInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc has no types
    """Unknown callers cannot activate the extension, by metadata or in a message; see `ActivationGate`.

    `tokens` are compared with the `authorization` metadata.
    """

    def __init__(self, *, tokens: Iterable[str]) -> None:
        self._known = KnownTokens(tokens)

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler.request_streaming:  # A2A has no method whose request is a stream
            return handler
        codecs = (handler.request_deserializer, handler.response_serializer)
        if not handler.response_streaming:
            unary = handler.unary_unary

            async def answer(request: Any, context: Any) -> Any:
                return await unary(request, self._guarded(context))

            return grpc.unary_unary_rpc_method_handler(answer, *codecs)
        stream = handler.unary_stream

        async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
            async for event in stream(request, self._guarded(context)):
                yield event

        return grpc.unary_stream_rpc_method_handler(answers, *codecs)

    def _guarded(self, context: Any) -> Any:
        metadata = context.invocation_metadata() or ()
        known = self._known.has_bearer([value for key, value in metadata if key.lower() == "authorization"])
        activation_refused.set(not known)  # in the context of this call
        return context if known else _UnknownCaller(context)


class _UnknownCaller:
    """The context of a call without the extension."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        metadata = []
        for key, value in self._context.invocation_metadata() or ():
            if key.lower().encode() in EXTENSIONS_HEADERS:
                value = strip_header(value if isinstance(value, str) else value.decode("utf-8", "replace"))
                if not value:
                    continue
            metadata.append((key, value))
        return tuple(metadata)
