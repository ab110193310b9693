"""The request handler of a2a-sdk's HTTP server: each request becomes a call of the agent over gRPC.

An error of A2A has its name in the status details, from which a2a-sdk reads it; `problem_of` is for any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import grpc.aio
from a2a.client.errors import A2AClientError
from a2a.client.transports.grpc import GrpcTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import AgentCard, GetExtendedAgentCardRequest
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.grpc_status import status_from_call
from a2a_tool_capture.spec import EXTENSIONS_HEADER, LEGACY_EXTENSIONS_HEADER
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import ErrorInfo

from ..grpc_relay.message_filter import may_hold_extension, replace_unreadable_calls
from ..grpc_relay.messages import SDK_METHODS, check_values, decoded
from ..net.http_client import UpstreamError, UpstreamTimeoutError, UpstreamUnreachableError
from ..settings.settings import AgentSettings
from .card import ConfiguredCard, offered
from .metadata import to_headers

_ERRORS: dict[grpc.StatusCode, type[A2AError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidParamsError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidParamsError,
    grpc.StatusCode.NOT_FOUND: TaskNotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: UnsupportedOperationError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedOperationError,
}
"""A2A 1.0, section 5.4: the error whose status this is. A refusal is in HTTP's statuses, further down."""

_REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}
"""HTTP statuses, as google.rpc.Code gives them."""

_TOO_LARGE_TO_SEND, _TOO_LARGE_TO_RECEIVE = "Sent message larger than max", "Received message larger than max"
"""In the details of a status that this side's gRPC library made: a message exceeds `max_body_bytes`."""

_TOO_MUCH_METADATA = "received metadata size exceeds"
"""In the details of a status of a gRPC library: at the beginning in that of the agent, which refuses the client's
headers, later in that of this side, which refuses the agent's."""


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """The agent refuses a client: a response with this HTTP status. `reason` is for programs, `message` for people."""

    status: int
    reason: str
    message: str


def problem_of(code: grpc.StatusCode, details: str | None, method: str) -> A2AError | RefusedCall | UpstreamError:
    """The error for a status without an error of A2A in its details. `method` is the name of the agent's method."""
    message = details or f"gRPC status {code.name}"
    if code is grpc.StatusCode.UNAVAILABLE:
        return UpstreamUnreachableError(message)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UpstreamTimeoutError(message)
    if _TOO_LARGE_TO_RECEIVE in message:
        return UpstreamError(message)
    if _TOO_LARGE_TO_SEND in message:
        return RefusedCall(413, "BODY_TOO_LARGE", message)
    if message.startswith(_TOO_MUCH_METADATA):
        return RefusedCall(431, "HEADERS_TOO_LARGE", f"the agent does not take headers of this size: {message}")
    if _TOO_MUCH_METADATA in message:
        return UpstreamError(message)
    if code in _REFUSALS:
        return RefusedCall(_REFUSALS[code], code.name, message)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        message = f"the agent does not implement {method}: {message}"
    return _ERRORS.get(code, InternalError)(message)


EXCHANGE = "a2a_eval_proxy.exchange"
"""Where the state of a call context, and the scope of its request, have the `TranscodedExchange`."""

_RAISED = (A2AError, UpstreamTimeoutError, ValueError, DecodeError, NotImplementedError)
"""What the transports of a2a-sdk raise for a status of the agent, and for a message that they cannot convert."""

_EXTENSIONS, _LEGACY_EXTENSIONS = EXTENSIONS_HEADER.lower(), LEGACY_EXTENSIONS_HEADER.lower()


@dataclass(slots=True, eq=False)
class TranscodedExchange:
    """One request of a client and the calls that it takes."""

    metadata: list[tuple[str, str | bytes]]  # for the agent
    calls: list[Any] = field(default_factory=list)
    """Of grpc.aio; there are two where the agent has only the service of A2A 0.3."""
    method: str = ""  # of the last call
    unreadable: ValueError | None = None  # why the last message of the agent cannot be read
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)  # of the response, from the agent's metadata
    problem: RefusedCall | UpstreamError | None = None
    """What the client gets unless the response has begun, in place of what a2a-sdk makes of the exception."""

    def cancel(self) -> None:
        """End the calls that are still open."""
        for call in self.calls:
            call.cancel()


class _ChannelOfExchange:
    """The channel as the stubs of a2a-sdk use it for one exchange: its calls have the metadata of the client."""

    def __init__(self, channel: grpc.aio.Channel, exchange: TranscodedExchange, timeout_s: float | None) -> None:
        """`timeout_s`: the deadline of calls that do not stream."""
        self._channel = channel
        self._exchange = exchange
        self._timeout_s = timeout_s

    def unary_unary(self, path: str, **options: Any) -> Callable[..., Any]:
        options["response_deserializer"] = partial(self._read, path)
        return partial(self._call, path, self._channel.unary_unary(path, **options), self._timeout_s)

    def unary_stream(self, path: str, **options: Any) -> Callable[..., Any]:
        options["response_deserializer"] = partial(self._read, path)
        return partial(self._call, path, self._channel.unary_stream(path, **options), None)

    def _read(self, path: str, data: bytes | None) -> Message:
        """The decoded message; an empty one where it is not readable, since grpcio hides exceptions."""
        method = SDK_METHODS[path]
        try:
            message = decoded(method.response_type, data)
            if data is not None and may_hold_extension(data):
                replace_unreadable_calls(message)  # a2a-sdk could not write them as JSON
            check_values(message)
            return message
        except ValueError as error:
            self._exchange.unreadable = error
            return method.response_type()

    def _call(
        self, path: str, method: Any, timeout_s: float | None, request: Any, *, metadata: Any, timeout: Any = None
    ) -> Any:
        given = self._exchange.metadata
        # Agents of 0.3 know the older name only; a client of 1.0 sends the newer one.
        older = [(_LEGACY_EXTENSIONS, value) for key, value in given if key == _EXTENSIONS]
        legacy = ("a2a-version", "0.3") in metadata and _LEGACY_EXTENSIONS not in dict(given)
        call = method(request, metadata=[*metadata, *given, *(older if legacy else [])], timeout=timeout_s)
        self._exchange.calls.append(call)
        self._exchange.method = path.rpartition("/")[2]
        return call


def _forwarded(name: str) -> Any:
    """A method that responds what the agent's method of this name does."""

    async def forwarded(handler: AgentOverGrpc, params: Any, context: ServerCallContext) -> Any:
        return await handler.answer(name, params, context)

    return forwarded


class AgentOverGrpc(RequestHandler):
    """Calls the agent's service of A2A 1.0, or that of 0.3 where it has only this one."""

    def __init__(self, channel: Callable[[], grpc.aio.Channel], settings: AgentSettings, card: ConfiguredCard) -> None:
        """`channel` returns the current channel to the agent; `card` is that of an agent without extended card."""
        self._channel = channel
        self._settings = settings
        self._card = card
        self._services: tuple[Any, ...] = (GrpcTransport, CompatGrpcTransport)  # the one that answered last comes first

    async def card(self, context: ServerCallContext) -> AgentCard:
        """The public card: the agent's extended one as this client gets it, else that of the settings.

        Raises A2AError while the agent cannot be reached.
        """
        try:
            return await self.on_get_extended_agent_card(GetExtendedAgentCardRequest(), context)
        except A2AError:
            exchange: TranscodedExchange = context.state[EXCHANGE]
            if isinstance(exchange.problem, UpstreamError):
                raise
            exchange.problem, exchange.headers = None, []
            return offered(self._card.card, self._settings)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        return offered(await self.answer("get_extended_agent_card", params, context), self._settings)

    async def on_message_send(self, params: Any, context: ServerCallContext) -> Any:
        params.configuration.SetInParent()  # without one, a2a-sdk tells an agent of 0.3 not to wait for the result
        return _content(await self.answer("send_message", params, context))

    async def on_message_send_stream(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any, None]:
        async for event in self._answers("send_message_streaming", params, context):
            yield _content(event)

    async def on_subscribe_to_task(self, params: Any, context: ServerCallContext) -> AsyncGenerator[Any, None]:
        async for event in self._answers("subscribe", params, context):
            yield _content(event)

    on_get_task = _forwarded("get_task")
    on_list_tasks = _forwarded("list_tasks")
    on_cancel_task = _forwarded("cancel_task")
    on_create_task_push_notification_config = _forwarded("create_task_push_notification_config")
    on_get_task_push_notification_config = _forwarded("get_task_push_notification_config")
    on_list_task_push_notification_configs = _forwarded("list_task_push_notification_configs")
    on_delete_task_push_notification_config = _forwarded("delete_task_push_notification_config")

    async def answer(self, name: str, params: Any, context: ServerCallContext) -> Any:
        async with aclosing(self._answers(name, params, context)) as answers:
            return await anext(answers)

    async def _answers(self, name: str, params: Any, context: ServerCallContext) -> AsyncGenerator[Any, None]:
        """What the agent responds to the method of `ClientTransport` with this name. Raises A2AError."""
        exchange: TranscodedExchange = context.state[EXCHANGE]
        if context.tenant and not params.tenant:  # HTTP+JSON has it in the path
            params.tenant = context.tenant
        refusal: A2AError | None = None
        for service in self._services:
            transport = service(_ChannelOfExchange(self._channel(), exchange, self._settings.response_timeout), None)
            begun = False
            try:
                async for answer in self._received(getattr(transport, name)(params)):
                    if exchange.unreadable is not None:
                        raise exchange.unreadable
                    if not begun:
                        begun = True
                        exchange.headers = to_headers(await exchange.calls[-1].initial_metadata())
                        self._services = (service, *(other for other in self._services if other is not service))
                    yield answer
                return
            except _RAISED as error:
                if begun or not _is_unimplemented(error):
                    raise _failure(error, exchange) from error
                refusal = refusal or _failure(error, exchange)
        assert refusal is not None  # noqa: S101
        raise refusal

    async def _received(self, answer: Awaitable[Any] | AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        """The messages of an answer. Raises UpstreamTimeoutError where the next one takes too long."""
        if not isinstance(answer, AsyncIterator):
            yield await answer
            return
        limit_s = self._settings.response_timeout
        while True:
            try:
                event = await asyncio.wait_for(anext(answer), limit_s)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise UpstreamTimeoutError(f"silent for {limit_s:g} s") from None
            yield event


def _content(message: Any) -> Any:
    """The Task, Message or event in a SendMessageResponse or StreamResponse."""
    kind = message.WhichOneof("payload")
    if kind is None:
        raise InvalidAgentResponseError(f"the agent sent a {type(message).__name__} of an unknown kind")
    return getattr(message, kind)


def _is_unimplemented(error: Exception) -> bool:
    status = _status_of(error)
    if status is None:
        return isinstance(error, NotImplementedError)  # A2A 0.3 has no such method
    return not _names_error(error) and status.code() is grpc.StatusCode.UNIMPLEMENTED


def _names_error(error: Exception) -> bool:
    """Whether it is an error of A2A; a2a-sdk's error for any other status is in the same class."""
    return isinstance(error, A2AError) and not isinstance(error, A2AClientError)


def _status_of(error: Exception) -> grpc.aio.AioRpcError | None:
    """The status of the agent's call that made a transport raise `error`."""
    causes = (error.__cause__, error.__context__)
    return next((cause for cause in causes if isinstance(cause, grpc.aio.AioRpcError)), None)


def _failure(error: Exception, exchange: TranscodedExchange) -> A2AError:
    """The exception for a2a-sdk, which responds with it; `exchange.problem` is set where another response is due."""
    status = _status_of(error)
    if status is not None:
        exchange.headers = to_headers([*status.initial_metadata(), *status.trailing_metadata()])
    if isinstance(error, A2AError) and _names_error(error):
        if status is not None and error.data is None:
            error.data = _metadata_of_error(status)
        return error
    problem: A2AError | RefusedCall | UpstreamError
    if exchange.unreadable is not None:
        return InvalidAgentResponseError(f"the agent's answer cannot be read: {exchange.unreadable}")
    if status is not None:
        problem = problem_of(status.code(), status.details(), exchange.method)
    elif isinstance(error, UpstreamTimeoutError):
        problem = error
    elif isinstance(error, NotImplementedError):
        problem = UnsupportedOperationError(str(error))
    else:
        problem = InternalError(f"the proxy cannot translate between HTTP and gRPC: {error}")
    if isinstance(problem, A2AError):
        return problem
    exchange.problem = problem
    return InternalError(problem.message if isinstance(problem, RefusedCall) else str(problem))


def _metadata_of_error(status: grpc.aio.AioRpcError) -> dict[str, str] | None:
    """The metadata of the ErrorInfo in the status, which a2a-sdk calls the data of an error."""
    details = status_from_call(status)
    info = ErrorInfo()
    for detail in details.details if details is not None else ():
        if detail.Unpack(info):
            return dict(info.metadata) or None
    return None
