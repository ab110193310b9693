"""OTLP/HTTP: the ASGI application of the port that OpenTelemetry exporters send to."""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import MessageToJson
from google.rpc.status_pb2 import Status
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..net.grpc_wire import GrpcStatus
from .decoding import ACCEPTED_CODINGS, JSON, PROTOBUF, BodyError, media_type
from .intake import SIGNALS, Intake

_SIGNALS_BY_PATH = {signal.path: signal for signal in SIGNALS}
_ADVICE = {408: {"Connection": "close"}, 415: {"Accept-Encoding": ACCEPTED_CODINGS}, 503: {"Retry-After": "1"}}
"""Headers for the sender, by status."""


class HttpReceiver:
    """The ASGI application for POST /v1/traces, /v1/logs and /v1/metrics of the OTLP specification.

    Responses have the encoding of the request: the export response, or a `google.rpc.Status` with the reason.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except BodyError as error:
            response = _refusal(request, error.status, error.code, str(error), _ADVICE.get(error.status))
        except ClientDisconnect:
            return  # nobody is left to answer
        self._intake.counts["http", "accepted" if response.status_code < 400 else "rejected"] += 1
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"]
        signal = _SIGNALS_BY_PATH.get(path)
        if signal is None:
            message = f"no {path} here; OTLP goes to {', '.join(_SIGNALS_BY_PATH)}"
            return _refusal(request, 404, GrpcStatus.UNIMPLEMENTED, message)
        if request.method != "POST":
            message = f"{request.method} is not for {signal.path}; use POST"
            return _refusal(request, 405, GrpcStatus.UNIMPLEMENTED, message, {"Allow": "POST"})
        headers = request.headers
        with self._intake.arriving(signal) as hold:
            declared = headers.get("content-length", "")
            if declared.isdigit() and int(declared) > self._intake.max_bytes:
                raise self._intake.too_large()
            body = await self._intake.read(request.stream(), hold)
            content_type, coding = headers.get("content-type", ""), headers.get("content-encoding", "")
            return _response(request, await self._intake.take(signal, body, content_type, coding, hold), 200)


def _refusal(
    request: Request, status: int, code: GrpcStatus, message: str, headers: dict[str, str] | None = None
) -> Response:
    return _response(request, Status(code=code, message=message), status, headers)


def _response(request: Request, message: Any, status: int, headers: dict[str, str] | None = None) -> Response:
    """Returns `message` in the encoding of the request; readable JSON if that is unknown."""
    if media_type(request.headers.get("content-type", "")) == PROTOBUF:
        return Response(message.SerializeToString(), status, headers, PROTOBUF)
    return Response(MessageToJson(message, indent=None), status, headers, JSON)
