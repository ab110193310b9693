"""Responses of the proxy itself: errors in the shape of the binding that the client uses."""

from __future__ import annotations

import json
from typing import NamedTuple

from .json_density import is_dense
from .operations import Binding

_DOMAIN = "a2a-eval-proxy"
_STATUS = {502: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 431: "INVALID_ARGUMENT", 405: "UNIMPLEMENTED"}
_INTERNAL_ERROR = -32603


class LocalResponse(NamedTuple):
    """A complete response that the proxy sends from memory."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def error(status: int, reason: str, message: str, binding: Binding, request_body: bytes) -> LocalResponse:
    """A JSON-RPC error object with the request's own id, or a `google.rpc.Status` for HTTP+JSON (A2A 1.0, 11.6).

    `reason` is for programs (`UPSTREAM_UNREACHABLE`), `message` for people.
    """
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": _DOMAIN, "metadata": {}}
    content: dict[str, object]
    if binding is Binding.JSONRPC:
        problem = {"code": _INTERNAL_ERROR, "message": message, "data": [info]}
        content = {"jsonrpc": "2.0", "id": _request_id(request_body), "error": problem}
    else:
        content = {"error": {"code": status, "status": _STATUS[status], "message": message, "details": [info]}}
    body = json.dumps(content, separators=(",", ":")).encode()
    return LocalResponse(status, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))], body)


def _request_id(body: bytes) -> object:
    """The JSON-RPC id exactly as sent (Python keeps integers of any size), or None."""
    try:
        request = None if is_dense(body) else json.loads(body)
    except (ValueError, RecursionError):
        return None
    return request.get("id") if isinstance(request, dict) else None
