"""OTLP/HTTP: the ASGI application of the port that OpenTelemetry exporters send to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from google.protobuf.json_format import MessageToJson
from google.rpc.code_pb2 import DEADLINE_EXCEEDED, INTERNAL, INVALID_ARGUMENT, UNAVAILABLE, UNIMPLEMENTED
from google.rpc.status_pb2 import Status
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .decoding import ACCEPTED_CODINGS, JSON, PROTOBUF, media_type
from .intake import SIGNALS, Intake, SinkError
from .size_limits import BodyError

_SIGNALS_BY_PATH = {signal.path: signal for signal in SIGNALS}
_ADVICE = {415: {"Accept-Encoding": ACCEPTED_CODINGS}, 503: {"Retry-After": "1"}}  # headers for the sender by status

_CODES = {
    HTTPStatus.NOT_FOUND: UNIMPLEMENTED,
    HTTPStatus.METHOD_NOT_ALLOWED: UNIMPLEMENTED,
    HTTPStatus.REQUEST_TIMEOUT: DEADLINE_EXCEEDED,
    HTTPStatus.INTERNAL_SERVER_ERROR: INTERNAL,
    HTTPStatus.SERVICE_UNAVAILABLE: UNAVAILABLE,
}


class HttpReceiver:
    """The ASGI application for POST /v1/traces, /v1/logs and /v1/metrics of the OTLP specification.

    `body_timeout_s` limits the time to receive a body. Responses have the encoding of the request: the export response,
    or a `google.rpc.Status` with the reason.
    """

    def __init__(self, intake: Intake, *, body_timeout_s: float = 30.0) -> None:
        self._intake = intake
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except HTTPException as refusal:
            code = _CODES.get(HTTPStatus(refusal.status_code), INVALID_ARGUMENT)
            status = Status(code=code, message=refusal.detail)
            response = _response(request, status, refusal.status_code, refusal.headers)
        except ClientDisconnect:
            return  # nobody is left to answer
        self._intake.counts["http", "accepted" if response.status_code < 400 else "rejected"] += 1
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"]
        signal = _SIGNALS_BY_PATH.get(path)
        if signal is None:
            raise HTTPException(404, f"no {path} here; OTLP goes to {', '.join(_SIGNALS_BY_PATH)}")
        if request.method != "POST":
            raise HTTPException(405, f"{request.method} is not for {signal.path}; use POST", {"Allow": "POST"})
        try:
            with self._intake.arriving(signal) as hold:
                accepted = await self._intake.take(
                    signal,
                    await self._body(request, hold),
                    request.headers.get("content-type", ""),
                    request.headers.get("content-encoding", ""),
                )
        except BodyError as error:
            raise HTTPException(error.status, str(error), _ADVICE.get(error.status)) from error
        except SinkError as error:
            raise HTTPException(500, str(error)) from error
        return _response(request, accepted, 200)

    async def _body(self, request: Request, hold: Callable[[int], None]) -> bytes:
        """Raises BodyError, or HTTPException."""
        body, limit = bytearray(), self._intake.max_bytes
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise self._intake.too_large()
        try:
            async with asyncio.timeout(self._body_timeout_s):
                async for chunk in request.stream():
                    body += chunk
                    hold(len(chunk))
                    if len(body) > limit:
                        raise self._intake.too_large()
        except TimeoutError:
            message = f"the body did not arrive within {self._body_timeout_s:g} s"
            raise HTTPException(408, message, {"Connection": "close"}) from None
        return bytes(body)


def _response(request: Request, message: Any, status: int, headers: Any = None) -> Response:
    """Returns `message` in the encoding of the request; readable JSON if that is unknown."""
    if media_type(request.headers.get("content-type", "")) == PROTOBUF:
        return Response(message.SerializeToString(), status, headers, PROTOBUF)
    return Response(MessageToJson(message, indent=None), status, headers, JSON)
