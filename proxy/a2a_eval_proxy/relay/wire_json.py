"""Exchanges of the wire log as JSON, without credentials. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from ..net.http_client import RawHeaders
from ..protocol.content_coding import codings, decoded_whole
from ..telemetry.logs import SHOWN_HEADERS, without_secrets
from .wire_log import MAX_EXCHANGE_BYTES, WireExchange

MASKED = "***"
"""Replaces the value of a header that may hold a credential."""


def exchange_json(exchange: WireExchange) -> dict[str, Any]:
    """An exchange as in `GET /api/turns/{id}/wire`, before the redaction of bodies. Times are seconds since the epoch.

    `task_ids` are the tasks in the response.
    """
    return {
        "started_at": exchange.started_at,
        "turn_id": exchange.turn_id,
        "task_ids": list(exchange.task_ids),
        "notification": exchange.is_notification,
        "request": _request(exchange),
        "response": _response(exchange) if exchange.status else None,
        "ended_at": exchange.ended_at,
        "problem": exchange.problem,
    }


def _request(exchange: WireExchange) -> dict[str, Any]:
    head = exchange.head.framed() if exchange.head is not None else b""
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    method, _, target = first.decode("latin-1").removesuffix(" HTTP/1.1").partition(" ")
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in lines)]
    body = _body([exchange.body], _coding(headers))
    if exchange.body_is_cut:
        body["cut"] = True
    return {"method": method, "target": without_secrets(target), "headers": _headers(headers), "body": body}


def _response(exchange: WireExchange) -> dict[str, Any]:
    response: dict[str, Any] = {
        "status": exchange.status,
        "headers": _headers(exchange.headers),
        "at": exchange.response_at,
    }
    if exchange.is_stream:
        response["events"] = [[at, _content(raw)] for at, raw in exchange.parts]
        response["events_left_out"] = exchange.events_left_out
    else:
        response["body"] = _body([raw for _, raw in exchange.parts], _coding(exchange.headers))
        response["pieces"] = [[at, len(raw)] for at, raw in exchange.parts]
    response["bytes_left_out"] = exchange.left_out
    return response


def _headers(headers: RawHeaders) -> list[list[str]]:
    """Names and values, in order; values are masked unless the header is known to be harmless."""
    return [
        [
            name.decode("latin-1"),
            without_secrets(value.decode("latin-1")) if name.decode("latin-1").lower() in SHOWN_HEADERS else MASKED,
        ]
        for name, value in headers
    ]


def _coding(headers: RawHeaders) -> str:
    return ",".join(value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding")


def _body(pieces: Iterable[bytes], coding: str) -> dict[str, Any]:
    """The body; decoded, where it has a content coding that the proxy knows and is complete."""
    raw = b"".join(pieces)
    if not codings(coding) or not raw:
        return _content(raw)
    try:
        decoded = decoded_whole(coding, raw, MAX_EXCHANGE_BYTES)
    except ValueError:
        return {**_content(raw), "coding": coding}
    return {**_content(decoded), "coding": coding, "bytes": len(raw)}


def _content(raw: bytes) -> dict[str, Any]:
    """`bytes`, their number, with `text`; or `base64` where they are no text in UTF-8."""
    try:
        return {"bytes": len(raw), "text": raw.decode()}
    except UnicodeDecodeError:
        return {"bytes": len(raw), "base64": base64.b64encode(raw).decode()}
