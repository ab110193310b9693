"""Responses of the proxy itself: errors in the shape of the binding that the client uses."""

from __future__ import annotations

import json
from typing import NamedTuple

from a2a_tool_capture.json_limits import has_too_many_values

from .operations import Binding

PROXY_DOMAIN, A2A_DOMAIN = "a2a-eval-proxy", "a2a-protocol.org"
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    431: "INVALID_ARGUMENT",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_INTERNAL_ERROR = -32603


class A2AProblem(NamedTuple):
    """An error of A2A (1.0, section 5.4)."""

    code: int
    """Of JSON-RPC."""
    status: str
    """Of `google.rpc.Status`; the HTTP status is 400."""
    reason: str


INVALID_PARAMS = A2AProblem(-32602, "INVALID_ARGUMENT", "INVALID_PARAMS")


class LocalResponse(NamedTuple):
    """A complete response that the proxy sends from memory."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def error(status: int, reason: str, message: str, binding: Binding, request_body: bytes) -> LocalResponse:
    """A JSON-RPC error object with the request's own id, or a `google.rpc.Status` for HTTP+JSON (A2A 1.0, 11.6).

    `reason` is for programs (`UPSTREAM_UNREACHABLE`), `message` for people.
    """
    problem = A2AProblem(_INTERNAL_ERROR, _STATUS.get(status, "UNKNOWN"), reason)
    return _response(status, problem, PROXY_DOMAIN, message, binding, request_body)


def invalid_params(message: str, binding: Binding, request_body: bytes) -> LocalResponse:
    """As `error`, for this error of A2A, as an agent would send it."""
    status = 200 if binding is Binding.JSONRPC else 400
    return _response(status, INVALID_PARAMS, A2A_DOMAIN, message, binding, request_body)


def only_id(request_body: bytes, binding: Binding) -> bytes:
    """A body for which `error` and `invalid_params` give the same response."""
    return json.dumps({"id": _request_id(request_body)}).encode() if binding is Binding.JSONRPC else b""


def _response(
    status: int, problem: A2AProblem, domain: str, message: str, binding: Binding, request_body: bytes
) -> LocalResponse:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    info = {"@type": kind, "reason": problem.reason, "domain": domain, "metadata": {}}
    content: dict[str, object]
    if binding is Binding.JSONRPC:
        error = {"code": problem.code, "message": message, "data": [info]}
        content = {"jsonrpc": "2.0", "id": _request_id(request_body), "error": error}
    else:
        content = {"error": {"code": status, "status": problem.status, "message": message, "details": [info]}}
    body = json.dumps(content, separators=(",", ":")).encode()
    return LocalResponse(status, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))], body)


def _request_id(body: bytes) -> object:
    """The JSON-RPC id exactly as sent (Python keeps integers of any size), or None."""
    try:
        request = None if has_too_many_values(body) else json.loads(body)
    except (ValueError, RecursionError):
        return None
    return request.get("id") if isinstance(request, dict) else None
