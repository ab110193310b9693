"""How each question is put in the words of a binding and protocol version. Pure."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from ...protocol.operations import Binding, Operation
from .record import Asked, Interface, Request

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
"""Tasks a ListTasks request asks for."""


def send(interface: Interface, text: str, message_id: str, asked: Asked, *, stream: bool, task_id: str = "") -> Request:
    """The user's message, to be answered when the agent is done, or as a stream; with a `task_id`, to that task."""
    message: dict[str, Any] = {"messageId": message_id, **({"taskId": task_id} if task_id else {})}
    if interface.binding is Binding.JSONRPC and interface.legacy:
        message |= {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
    elif interface.legacy:  # 0.3's HTTP+JSON is ProtoJSON, whose parts are called `content`
        message |= {"role": "ROLE_USER", "content": [{"text": text}]}
    else:
        message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
    if asked is Asked.ASIDE:
        message["extensions"] = list(asked.uris)
    content: dict[str, Any] = {"message": message}
    if interface.legacy and not stream:
        content["configuration"] = {"blocking": True}  # 1.0 waits unless told otherwise, 0.3 leaves it open
    operation = Operation.STREAM if stream else Operation.SEND
    return _request(interface, operation, asked, "POST", f"/message:{operation}", content)


def get(interface: Interface, task_id: str, asked: Asked) -> Request:
    """The task as it is now."""
    return _request(interface, Operation.GET, asked, "GET", f"/tasks/{quote(task_id, safe='')}", {"id": task_id})


def list_tasks(interface: Interface, context_id: str, asked: Asked) -> Request:
    """The tasks of a conversation, with their artifacts. A2A 1.0 only: 0.3 has no such operation."""
    content = {"contextId": context_id, "includeArtifacts": True, "pageSize": LISTED_TASKS}
    query = urlencode(content | {"includeArtifacts": "true"})
    return _request(interface, Operation.LIST, asked, "GET", f"/tasks?{query}", content)


def subscribe(interface: Interface, task_id: str, asked: Asked) -> Request:
    """The events of a task from now on."""
    path = f"/tasks/{quote(task_id, safe='')}:subscribe"
    return _request(interface, Operation.SUBSCRIBE, asked, "GET", path, {"id": task_id})


def _request(
    interface: Interface, operation: Operation, asked: Asked, method: str, path: str, content: dict[str, Any]
) -> Request:
    """`path` and `method` are those of HTTP+JSON 1.0; `content` is its body, or the params of JSON-RPC."""
    headers = [("Accept", "text/event-stream" if operation in STREAMING else "application/json")]
    if not interface.legacy:
        headers.append(("A2A-Version", interface.version))
    activated = interface.required if asked is Asked.ASIDE else (*interface.required, *asked.uris)
    if activated:
        headers.append((interface.extensions_header, ", ".join(activated)))
    if asked is Asked.ASIDE:
        headers.append((interface.other_extensions_header, ", ".join(asked.uris)))
    base = interface.url
    if interface.binding is Binding.JSONRPC:
        if interface.tenant:
            content = {"tenant": interface.tenant, **content}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": _METHODS[operation][interface.legacy], "params": content}
        return Request("POST", base, (*headers, _JSON), json.dumps(rpc).encode())
    base = base.rstrip("/")
    if interface.tenant:
        base += f"/{quote(interface.tenant, safe='')}"
    url = base + ("/v1" if interface.legacy else "") + path
    if method == "GET":
        return Request("GET", url, tuple(headers))
    return Request("POST", url, (*headers, _JSON), json.dumps(content).encode())


_JSON = ("Content-Type", "application/json")
