"""Builds the requests about webhooks for a binding and protocol version, and reads configurations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ...protocol.operations import Binding, Operation
from .record import Activation, CheckWebhook, Interface, OperationRequest, ProbeExchange, PushStep
from .requests import build

SCHEME = "Bearer"

_LEGACY_RPC_METHODS = {
    PushStep.CREATE: "tasks/pushNotificationConfig/set",
    PushStep.GET: "tasks/pushNotificationConfig/get",
    PushStep.LIST: "tasks/pushNotificationConfig/list",
    PushStep.DELETE: "tasks/pushNotificationConfig/delete",
}
_HTTP_METHODS = {PushStep.CREATE: "POST", PushStep.DELETE: "DELETE"}


def in_message(interface: Interface, webhook: CheckWebhook) -> dict[str, Any]:
    """The fields of SendMessageConfiguration that set the webhook."""
    if not interface.legacy:
        name = "taskPushNotificationConfig"
    else:
        name = "pushNotificationConfig" if interface.binding is Binding.JSONRPC else "pushNotification"
    return {name: configuration_of(interface, webhook)}


def create(interface: Interface, task_id: str, configuration: Mapping[str, Any]) -> OperationRequest:
    """CreateTaskPushNotificationConfig; the client may choose the `id` of the configuration."""
    content: dict[str, Any]
    if not interface.legacy:
        content = {"taskId": task_id, **configuration}
    elif interface.binding is Binding.JSONRPC:
        content = {"taskId": task_id, "pushNotificationConfig": configuration}
    else:
        content = {"parent": f"tasks/{task_id}", "config": {"pushNotificationConfig": configuration}}
        if config_id := configuration.get("id"):
            content["configId"] = config_id
            content["config"]["name"] = _resource(task_id, config_id)
    return _request(interface, PushStep.CREATE, task_id, content)


def get(interface: Interface, task_id: str, config_id: str) -> OperationRequest:
    return _request(interface, PushStep.GET, task_id, _named(interface, task_id, config_id), config_id)


def list_all(interface: Interface, task_id: str) -> OperationRequest:
    content = {"taskId": task_id}
    if interface.legacy:
        content = {"parent": f"tasks/{task_id}"} if interface.binding is Binding.GRPC else {"id": task_id}
    return _request(interface, PushStep.LIST, task_id, content)


def delete(interface: Interface, task_id: str, config_id: str) -> OperationRequest:
    return _request(interface, PushStep.DELETE, task_id, _named(interface, task_id, config_id), config_id)


def configurations(exchange: ProbeExchange) -> Iterator[tuple[str, str]]:
    """Yields id and URL of each configuration in an answer, in any form."""
    for event in exchange.events:
        raw = event.raw.get("configs", [event.raw]) if isinstance(event.raw, dict) else event.raw
        for item in raw if isinstance(raw, list) else ():
            inner = item.get("pushNotificationConfig", item) if isinstance(item, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get("url"), str):
                named = str(item.get("name") or "").rpartition("/")[2]  # the resource name of 0.3
                yield str(inner.get("id") or named), inner["url"]


def configuration_of(interface: Interface, webhook: CheckWebhook) -> dict[str, Any]:
    """The configuration of the webhook in the form of the interface."""
    schemes: dict[str, Any] = {"schemes": [SCHEME]} if interface.legacy else {"scheme": SCHEME}
    authentication = {**schemes, "credentials": webhook.credentials}
    return {"url": webhook.url, "token": webhook.token, "authentication": authentication}


def _named(interface: Interface, task_id: str, config_id: str) -> dict[str, Any]:
    if not interface.legacy:
        return {"taskId": task_id, "id": config_id}
    if interface.binding is Binding.GRPC:
        return {"name": _resource(task_id, config_id)}
    return {"id": task_id, "pushNotificationConfigId": config_id}


def _resource(task_id: str, config_id: str) -> str:
    return f"tasks/{task_id}/pushNotificationConfigs/{config_id}"


def _request(
    interface: Interface, step: PushStep, task_id: str, content: dict[str, Any], config_id: str = ""
) -> OperationRequest:
    path = f"/tasks/{quote(task_id, safe='')}/pushNotificationConfigs"
    if config_id:
        path += f"/{quote(config_id, safe='')}"
    name = step.value
    if interface.legacy:
        if interface.binding is Binding.JSONRPC:
            name = _LEGACY_RPC_METHODS[step]
        elif step is PushStep.LIST:
            name = "ListTaskPushNotificationConfig"
    method = _HTTP_METHODS.get(step, "GET")
    return build(interface, Operation.PUSH_CONFIG, Activation.NOTHING, method, path, content, name)
