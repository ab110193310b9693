"""Builds the requests of a check for a binding and protocol version. Pure."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from ..protocol.operations import RPC_METHODS, Binding, Operation
from .record import Activation, Interface, OperationRequest

STREAMING = frozenset({Operation.STREAM, Operation.SUBSCRIBE})
"""Operations that are answered with server-sent events."""

GRPC = "gRPC"
"""The `method` of a gRPC call."""

_LEGACY_GRPC_METHODS = {Operation.SUBSCRIBE: "TaskSubscription", Operation.EXTENDED_CARD: "GetAgentCard"}

LISTED_TASKS = 50
"""Page size of a ListTasks request."""


def send(
    interface: Interface,
    operation: Operation,
    text: str,
    message_id: str,
    activation: Activation = Activation.NOTHING,
    task_id: str = "",
) -> OperationRequest:
    """SendMessage or SendStreamingMessage; a `task_id` continues that task."""
    message = text_message(interface, text, message_id) | ({"taskId": task_id} if task_id else {})
    if activation is Activation.V1_IN_WRONG_PLACE:
        message["extensions"] = list(activation.uris)
    content: dict[str, Any] = {"message": message}
    if interface.legacy and operation is Operation.SEND:
        content["configuration"] = {"blocking": True}  # the default in 1.0, undefined in 0.3
    return build(interface, operation, activation, "POST", f"/message:{operation}", content)


def text_message(interface: Interface, text: str, message_id: str) -> dict[str, Any]:
    """A Message of the user in the form of the interface."""
    if interface.binding is Binding.JSONRPC and interface.legacy:
        content: dict[str, Any] = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": text}]}
    elif interface.legacy:  # 0.3's HTTP+JSON and gRPC are ProtoJSON, whose parts are called `content`
        content = {"role": "ROLE_USER", "content": [{"text": text}]}
    else:
        content = {"role": "ROLE_USER", "parts": [{"text": text}]}
    return {"messageId": message_id, **content}


def get(interface: Interface, task_id: str, activation: Activation = Activation.NOTHING) -> OperationRequest:
    return build(interface, Operation.GET, activation, "GET", f"/tasks/{quote(task_id, safe='')}", {"id": task_id})


def list_tasks(interface: Interface, context_id: str, activation: Activation = Activation.NOTHING) -> OperationRequest:
    """ListTasks of a conversation, with artifacts. A2A 1.0 only: 0.3 has no such operation."""
    content = {"contextId": context_id, "includeArtifacts": True, "pageSize": LISTED_TASKS}
    query = urlencode(content | {"includeArtifacts": "true"})
    return build(interface, Operation.LIST, activation, "GET", f"/tasks?{query}", content)


def subscribe(interface: Interface, task_id: str, activation: Activation = Activation.NOTHING) -> OperationRequest:
    path = f"/tasks/{quote(task_id, safe='')}:subscribe"
    return build(interface, Operation.SUBSCRIBE, activation, "GET", path, {"id": task_id})


def extended_card(interface: Interface) -> OperationRequest:
    """GetExtendedAgentCard; in 0.3 over gRPC GetAgentCard."""
    path = "/card" if interface.legacy else "/extendedAgentCard"
    return build(interface, Operation.EXTENDED_CARD, Activation.NOTHING, "GET", path, {})


def build(
    interface: Interface,
    operation: Operation,
    activation: Activation,
    method: str,
    path: str,
    content: dict[str, Any],
) -> OperationRequest:
    """A request of any operation.

    `path` and `method` are those of HTTP+JSON 1.0; `content` is its body, or the params of JSON-RPC, or the gRPC
    message.
    """
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
    params = {"tenant": interface.tenant, **content} if interface.tenant else content
    body = b""
    if interface.binding is Binding.GRPC:
        headers = [(key.lower(), value) for key, value in headers[1:]]
        method, url = GRPC, f"{interface.url}/{interface.grpc_service}/{_grpc_method(interface, operation)}"
        if interface.legacy and "id" in params:
            params = {"name": f"tasks/{params['id']}"}
        body = json.dumps(params).encode()
    elif interface.binding is Binding.JSONRPC:
        method, url = "POST", interface.url
        content = {"jsonrpc": "2.0", "id": 1, "method": RPC_METHODS[operation][interface.legacy], "params": params}
    else:
        tenant = f"/{quote(interface.tenant, safe='')}" if interface.tenant else ""
        url = interface.url.rstrip("/") + tenant + ("/v1" if interface.legacy else "") + path
    if method == "POST":
        headers.append(("Content-Type", "application/json"))
        body = json.dumps(content).encode()
    return OperationRequest(
        method, url, tuple(headers), body, interface=interface, operation=operation, activation=activation
    )


def _grpc_method(interface: Interface, operation: Operation) -> str:
    name = RPC_METHODS[operation][0]
    return _LEGACY_GRPC_METHODS.get(operation, name) if interface.legacy else name
