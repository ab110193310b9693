"""OTLP/HTTP: the ASGI application of the port that OpenTelemetry exporters send to."""

from __future__ import annotations

from typing import Any

from google.protobuf.json_format import MessageToJson
from google.rpc.status_pb2 import Status
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .decoding import ACCEPTED_CODINGS, JSON, PROTOBUF, BodyError, media_type
from .intake import SIGNALS, Intake, Packed

_SIGNALS_BY_PATH = {signal.path: signal for signal in SIGNALS}
_ADVICE = {
    405: {"Allow": "POST"},
    408: {"Connection": "close"},
    415: {"Accept-Encoding": ACCEPTED_CODINGS},
    503: {"Retry-After": "1"},
}
"""Headers for the sender, by status."""


class HttpReceiver:
    """The ASGI application for POST /v1/traces, /v1/logs and /v1/metrics of the OTLP specification.

    Responses have the encoding of the request: the export response, or a `google.rpc.Status` with the reason.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        status, headers = 200, None
        try:
            message = await self._answer(request)
        except BodyError as error:
            status, headers = error.status, _ADVICE.get(error.status)
            message = Status(code=error.code, message=str(error))
        except ClientDisconnect:
            return  # nobody is left to answer
        self._intake.counts["http", "accepted" if status == 200 else "rejected"] += 1
        content: bytes | str = message.SerializeToString()
        kind = media_type(request.headers.get("content-type", ""))
        if kind != PROTOBUF:  # readable, where the encoding of the request is unknown
            kind, content = JSON, MessageToJson(message, indent=None)
        await Response(content, status, headers, kind)(scope, receive, send)

    async def _answer(self, request: Request) -> Any:
        headers, path = request.headers, request.scope["path"]
        signal = _SIGNALS_BY_PATH.get(path)
        if signal is None:
            raise BodyError(404, f"no {path} here; OTLP goes to {', '.join(_SIGNALS_BY_PATH)}")
        if request.method != "POST":
            raise BodyError(405, f"{request.method} is not for {signal.path}; use POST")
        declared = headers.get("content-length", "")
        kind, coding = headers.get("content-type", ""), headers.get("content-encoding", "")
        size = int(declared) if declared.isdigit() else 0
        return await self._intake.answer(signal, request.stream(), lambda body: Packed(body, kind, coding), size)
