"""Builds the requests of a comparison for a binding and protocol version. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from ...protocol.operations import Binding
from ..probe.record import Activation, Interface, ProbeRequest
from ..probe.requests import LISTED_TASKS, text_message

CONFIG_ID = "a2a-eval-proxy-check"
WEBHOOK = "https://webhook.invalid/a2a-eval-proxy-check"
"""A name that cannot exist (RFC 6761): nothing is sent there, as the task has ended."""

_PUSH_PATH = "/tasks/{task}/pushNotificationConfigs"
_REST = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{task}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{task}:cancel"),
    "SubscribeToTask": ("GET", "/tasks/{task}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", _PUSH_PATH),
    "GetTaskPushNotificationConfig": ("GET", _PUSH_PATH + "/" + CONFIG_ID),
    "ListTaskPushNotificationConfigs": ("GET", _PUSH_PATH),
    "DeleteTaskPushNotificationConfig": ("DELETE", _PUSH_PATH + "/" + CONFIG_ID),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
}
"""HTTP method and path by the name of the operation in A2A 1.0. A2A 0.3 has `/v1` before the paths."""

_LEGACY_RPC = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
    "GetExtendedAgentCard": "agent/getAuthenticatedExtendedCard",
}
_LEGACY_GRPC = {
    "SubscribeToTask": "TaskSubscription",
    "ListTaskPushNotificationConfigs": "ListTaskPushNotificationConfig",
    "GetExtendedAgentCard": "GetAgentCard",
}
_STREAMS = frozenset({"SendStreamingMessage", "SubscribeToTask"})


@dataclass(frozen=True, slots=True)
class GrpcRequest:
    """A call of `path` at `address`, with a message in its JSON form or as bytes."""

    address: str
    path: str
    metadata: tuple[tuple[str, str], ...]
    message: dict[str, Any] | bytes


ComparedRequest = ProbeRequest | GrpcRequest


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one side over one interface."""

    interface: Interface

    def operation(self, name: str, content: dict[str, Any], task: str = "", *, asked: bool = False) -> ComparedRequest:
        """An operation by its name in A2A 1.0, with its content for this interface; `task` is in paths of HTTP+JSON."""
        interface = self.interface
        headers = self._headers(asked)
        if interface.tenant:
            content = {"tenant": interface.tenant, **content}
        if interface.binding is Binding.GRPC:
            return self._call(_LEGACY_GRPC.get(name, name) if interface.legacy else name, content, headers)
        accept = ("Accept", "text/event-stream" if name in _STREAMS else "application/json")
        if interface.binding is Binding.JSONRPC:
            method = _LEGACY_RPC[name] if interface.legacy else name
            content = {"jsonrpc": "2.0", "id": 1, "method": method, "params": content}
            return self._post(interface.url, content, accept, asked=asked)
        verb, path = ("GET", "/card") if interface.legacy and name == "GetExtendedAgentCard" else _REST[name]
        url = self._base() + path.format(task=quote(task, safe=""))
        if verb == "POST":
            return self._post(url, content, accept, asked=asked)
        if name == "ListTasks":
            url += "?" + urlencode({key: "true" if value is True else value for key, value in content.items()})
        return ProbeRequest(verb, url, (accept, *headers))

    def send(
        self, text: str, message_id: str, *, stream: bool = False, asked: bool = False, waits: bool = True
    ) -> ComparedRequest:
        """SendMessage or SendStreamingMessage. `waits`: SendMessage responds when the agent has finished."""
        content: dict[str, Any] = {"message": text_message(self.interface, text, message_id)}
        if self.interface.legacy and not stream:
            content["configuration"] = {"blocking": waits}
        elif not waits:
            content["configuration"] = {"returnImmediately": True}
        return self.operation("SendStreamingMessage" if stream else "SendMessage", content, asked=asked)

    def about_task(self, name: str, task: str, *, asked: bool = False) -> ComparedRequest:
        """GetTask, CancelTask or SubscribeToTask."""
        content = {"name": f"tasks/{task}"} if self._by_resource_name else {"id": task}
        return self.operation(name, content, task, asked=asked)

    def list_tasks(self, context: str) -> ComparedRequest:
        """ListTasks of a conversation. A2A 1.0 only."""
        return self.operation("ListTasks", {"contextId": context, "includeArtifacts": True, "pageSize": LISTED_TASKS})

    def push_config(self, verb: str, task: str) -> ComparedRequest:
        """Create, Get, List or Delete of a push-notification configuration."""
        name = "ListTaskPushNotificationConfigs" if verb == "List" else f"{verb}TaskPushNotificationConfig"
        config = {"id": CONFIG_ID, "url": WEBHOOK}
        resource = f"tasks/{task}/pushNotificationConfigs/{CONFIG_ID}"
        if not self.interface.legacy:
            content: dict[str, Any] = {"taskId": task}
            content |= config if verb == "Create" else {} if verb == "List" else {"id": CONFIG_ID}
        elif self.interface.binding is Binding.JSONRPC:
            content = {"taskId": task, "pushNotificationConfig": config} if verb == "Create" else {"id": task}
            content |= {"pushNotificationConfigId": CONFIG_ID} if verb in ("Get", "Delete") else {}
        elif verb == "Create":
            entry = {"name": resource, "pushNotificationConfig": config}
            content = {"parent": f"tasks/{task}", "configId": CONFIG_ID, "config": entry}
        else:
            content = {"parent": f"tasks/{task}"} if verb == "List" else {"name": resource}
        return self.operation(name, content, task)

    def extended_card(self) -> ComparedRequest:
        """GetExtendedAgentCard."""
        return self.operation("GetExtendedAgentCard", {})

    # ── requests that are wrong ─────────────────────────────────────────────────────────────────────────────

    def unknown_method(self) -> ComparedRequest:
        """A method, path or call that A2A does not have."""
        if self.interface.binding is Binding.GRPC:
            return self._call("NoSuchMethod", {}, self._headers())
        if self.interface.binding is Binding.JSONRPC:
            return self._post(self.interface.url, {"jsonrpc": "2.0", "id": 1, "method": "NoSuchMethod", "params": {}})
        return ProbeRequest("GET", self._base() + "/no-such-path", self._headers())

    def malformed(self, message_id: str) -> ComparedRequest:
        """A send whose body is cut in two."""
        request = self.send("", message_id)
        if isinstance(request, GrpcRequest):
            return replace(request, message=b"\x0a\xff")
        return replace(request, body=request.body[: len(request.body) // 2])

    def wrong_version(self) -> ComparedRequest:
        """A read with a protocol version that does not exist."""
        request = self.about_task("GetTask", "no-such-task")
        if isinstance(request, GrpcRequest):
            kept = tuple(entry for entry in request.metadata if entry[0] != "a2a-version")
            return replace(request, metadata=(*kept, ("a2a-version", "99.0")))
        kept = tuple(entry for entry in request.headers if entry[0] != "A2A-Version")
        return replace(request, headers=(*kept, ("A2A-Version", "99.0")))

    def wrong_content_type(self) -> ComparedRequest | None:
        """An operation on a task that does not exist, as text/plain. None for gRPC, whose libraries set the type."""
        request = self.about_task("CancelTask", "no-such-task")
        if isinstance(request, GrpcRequest):
            return None
        kept = tuple(entry for entry in request.headers if entry[0] != "Content-Type")
        return replace(request, headers=(*kept, ("Content-Type", "text/plain")))

    # ── parts of requests ───────────────────────────────────────────────────────────────────────────────────

    @property
    def _by_resource_name(self) -> bool:
        return self.interface.legacy and self.interface.binding is Binding.GRPC

    def _base(self) -> str:
        tenant = f"/{quote(self.interface.tenant, safe='')}" if self.interface.tenant else ""
        return self.interface.url.rstrip("/") + tenant + ("/v1" if self.interface.legacy else "")

    def _headers(self, asked: bool = False) -> tuple[tuple[str, str], ...]:
        version = () if self.interface.legacy else (("A2A-Version", self.interface.version),)
        uris = (*self.interface.required, *(Activation.V1.uris if asked else ()))
        return (*version, *(((self.interface.extensions_header, ", ".join(uris)),) if uris else ()))

    def _post(
        self, url: str, content: dict[str, Any], accept: tuple[str, str] | None = None, *, asked: bool = False
    ) -> ProbeRequest:
        accept = accept or ("Accept", "application/json")
        headers = (accept, *self._headers(asked), ("Content-Type", "application/json"))
        return ProbeRequest("POST", url, headers, json.dumps(content).encode())

    def _call(self, method: str, content: dict[str, Any], headers: tuple[tuple[str, str], ...]) -> GrpcRequest:
        metadata = tuple((name.lower(), value) for name, value in headers)
        return GrpcRequest(self.interface.url, f"/{self.interface.grpc_service}/{method}", metadata, content)
