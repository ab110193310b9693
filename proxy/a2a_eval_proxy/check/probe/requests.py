"""Builds the requests of a check for a binding and protocol version. Pure."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from ...protocol.operations import Binding, Operation
from .record import Activation, Interface, ProbeRequest

_METHODS = {
    Operation.SEND: ("SendMessage", "message/send"),
    Operation.STREAM: ("SendStreamingMessage", "message/stream"),
    Operation.GET: ("GetTask", "tasks/get"),
    Operation.LIST: ("ListTasks", "tasks/list"),
    Operation.SUBSCRIBE: ("SubscribeToTask", "tasks/resubscribe"),
}
"""JSON-RPC method names of 1.0 and 0.3."""

STREAMING = frozenset({Operation.STREAM, Operation.SUBSCRIBE})
"""Operations that are answered with server-sent events."""

LISTED_TASKS = 50
"""Page size of a ListTasks request."""


def send(
    interface: Interface, text: str, message_id: str, activation: Activation, *, stream: bool, task_id: str = ""
) -> ProbeRequest:
    """SendMessage or, with `stream`, SendStreamingMessage; a `task_id` continues that task."""
    message: dict[str, Any] = {"messageId": message_id, **({"taskId": task_id} if task_id else {})}
    if interface.binding is Binding.JSONRPC and interface.legacy:
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
    elif interface.legacy:  # 0.3's HTTP+JSON is ProtoJSON, whose parts are called `content`
        message |= {"role": "ROLE_USER", "content": [{"text": text}]}
    else:
        message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
    if activation is Activation.V1_IN_WRONG_PLACE:
        message["extensions"] = list(activation.uris)
    content: dict[str, Any] = {"message": message}
    if interface.legacy and not stream:
        content["configuration"] = {"blocking": True}  # the default in 1.0, undefined in 0.3
    operation = Operation.STREAM if stream else Operation.SEND
    return _request(interface, operation, activation, "POST", f"/message:{operation}", content)


def get(interface: Interface, task_id: str, activation: Activation) -> ProbeRequest:
    """GetTask."""
    return _request(interface, Operation.GET, activation, "GET", f"/tasks/{quote(task_id, safe='')}", {"id": task_id})


def list_tasks(interface: Interface, context_id: str, activation: Activation) -> ProbeRequest:
    """ListTasks of a conversation, with artifacts. A2A 1.0 only: 0.3 has no such operation."""
    content = {"contextId": context_id, "includeArtifacts": True, "pageSize": LISTED_TASKS}
    query = urlencode(content | {"includeArtifacts": "true"})
    return _request(interface, Operation.LIST, activation, "GET", f"/tasks?{query}", content)


def subscribe(interface: Interface, task_id: str, activation: Activation) -> ProbeRequest:
    """SubscribeToTask."""
    path = f"/tasks/{quote(task_id, safe='')}:subscribe"
    return _request(interface, Operation.SUBSCRIBE, activation, "GET", path, {"id": task_id})


def _request(
    interface: Interface, operation: Operation, activation: Activation, method: str, path: str, content: dict[str, Any]
) -> ProbeRequest:
    """`path` and `method` are those of HTTP+JSON 1.0; `content` is its body, or the params of JSON-RPC."""
    headers = [("Accept", "text/event-stream" if operation in STREAMING else "application/json")]
    if not interface.legacy:
        headers.append(("A2A-Version", interface.version))
    activated = (
        interface.required if activation is Activation.V1_IN_WRONG_PLACE else (*interface.required, *activation.uris)
    )
    if activated:
        headers.append((interface.extensions_header, ", ".join(activated)))
    if activation is Activation.V1_IN_WRONG_PLACE:
        headers.append((interface.other_extensions_header, ", ".join(activation.uris)))
    base = interface.url
    if interface.binding is Binding.JSONRPC:
        if interface.tenant:
            content = {"tenant": interface.tenant, **content}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": _METHODS[operation][interface.legacy], "params": content}
        return ProbeRequest("POST", base, (*headers, _JSON), json.dumps(rpc).encode())
    base = base.rstrip("/")
    if interface.tenant:
        base += f"/{quote(interface.tenant, safe='')}"
    url = base + ("/v1" if interface.legacy else "") + path
    if method == "GET":
        return ProbeRequest("GET", url, tuple(headers))
    return ProbeRequest("POST", url, (*headers, _JSON), json.dumps(content).encode())


_JSON = ("Content-Type", "application/json")
