"""What a check sends: the interfaces that a card of A2A 1.0 or 0.3 offers, and requests over each of them. Pure."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from a2a_tool_capture.spec import is_capture_uri

from ...protocol.operations import RPC_METHODS, Binding, Operation
from .record import STREAMING, Activation, Interface, NotChecked, OperationRequest

_BINDINGS = {binding.value: binding for binding in Binding}
_GRPC_ADDRESS = re.compile(r"(?:\w+://)?[^/\s]+:\d+/?")


def offered_interfaces(card: dict[str, Any]) -> tuple[list[Interface], list[NotChecked]]:
    """Returns the interfaces that can be checked, in the card's order without duplicates, and the others with a reason.

    1.0 has `supportedInterfaces`; 0.3 has `url` with `preferredTransport`, and `additionalInterfaces`. Fields of
    the wrong type count as absent.
    """
    required = _required_extensions(card)
    checked: dict[Interface, None] = {}
    left: dict[NotChecked, None] = {}
    for binding, version, url, tenant in _entries(card):
        name = f"{binding or 'unnamed binding'} {version}"
        short = ".".join(version.split(".")[:2])
        if binding not in _BINDINGS:
            left[NotChecked(f"{name} {url}", "the binding is not JSONRPC, HTTP+JSON or GRPC")] = None
        elif short not in ("1.0", "0.3"):
            left[NotChecked(f"{name} {url}", "the protocol version is neither 1.0 nor 0.3")] = None
        elif binding == Binding.GRPC and not _GRPC_ADDRESS.fullmatch(url):
            left[NotChecked(f"{name} {url!r}", "its URL is not HOST:PORT")] = None
        elif binding != Binding.GRPC and not _is_absolute(url):
            left[NotChecked(f"{name} {url!r}", "its URL is not an absolute http or https URL")] = None
        else:
            checked[Interface(_BINDINGS[binding], short, url, tenant, required)] = None
    return list(checked), list(left)


def offers_streaming(card: dict[str, Any]) -> bool:
    return _capabilities(card).get("streaming") is True


def declared_extensions(card: dict[str, Any]) -> Any:
    return _capabilities(card).get("extensions")


def objects(value: Any) -> list[dict[str, Any]]:
    """Returns the objects in a list; [] for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _capabilities(card: dict[str, Any]) -> dict[str, Any]:
    capabilities = card.get("capabilities")
    return capabilities if isinstance(capabilities, dict) else {}


def _required_extensions(card: dict[str, Any]) -> tuple[str, ...]:
    """Returns the URIs that clients must activate, except this extension's, which must not be required."""
    declared = objects(declared_extensions(card))
    uris = (_field_text(entry.get("uri")) for entry in declared if entry.get("required") is True)
    return tuple(uri for uri in uris if uri.isascii() and uri.isprintable() and uri and not is_capture_uri(uri))


def _entries(card: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Returns binding, protocol version, URL and tenant of every interface; "" for a missing field."""
    found = []
    for entry in objects(card.get("supportedInterfaces")):
        version = _field_text(entry.get("protocolVersion")) or "1.0"
        found.append((_field_text(entry.get("protocolBinding")).upper(), version, _field_text(entry.get("url")), entry))
    legacy = _field_text(card.get("protocolVersion")) or "0.3"
    if isinstance(card.get("url"), str):
        found.append((_field_text(card.get("preferredTransport")).upper() or "JSONRPC", legacy, card["url"], {}))
    found += [
        (_field_text(entry.get("transport")).upper(), legacy, _field_text(entry.get("url")), {})
        for entry in objects(card.get("additionalInterfaces"))
    ]
    return [(binding, version, url, _field_text(entry.get("tenant"))) for binding, version, url, entry in found]


def _field_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


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
