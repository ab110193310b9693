"""Which A2A operation an HTTP request is, over JSON-RPC or HTTP+JSON, protocol 1.0 or 0.3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import orjson
from a2a_tool_capture.json_limits import has_too_many_values
from a2a_tool_capture.json_values import read_json
from a2a_tool_capture.spec import is_capture_uri
from a2a_tool_capture.wire import camel_keys, generation_of


class Operation(StrEnum):
    """The operations that capture distinguishes. Requests that carry no Task are all `OTHER`."""

    SEND = "send"
    STREAM = "stream"
    GET = "get"
    LIST = "list"
    SUBSCRIBE = "subscribe"
    CANCEL = "cancel"
    EXTENDED_CARD = "extended_card"
    PUSH_CONFIG = "push_config"
    """Any request about the push-notification configurations of a task, in any version."""
    BATCH = "batch"
    OTHER = "other"


CARRIES_TASKS = frozenset(
    {Operation.SEND, Operation.STREAM, Operation.GET, Operation.LIST, Operation.SUBSCRIBE, Operation.CANCEL}
)
"""Operations whose responses show tasks: these are captured and filtered."""

SENDS_MESSAGE = frozenset({Operation.SEND, Operation.STREAM})
"""Operations whose requests have a message of the user."""

SETS_WEBHOOKS = SENDS_MESSAGE | {Operation.PUSH_CONFIG}
"""Operations whose requests may set webhooks in A2A."""


class Binding(StrEnum):
    JSONRPC = "JSONRPC"
    HTTP_JSON = "HTTP+JSON"
    GRPC = "GRPC"


HTTP_BINDINGS = frozenset({Binding.JSONRPC, Binding.HTTP_JSON})

RPC_METHODS = {
    Operation.SEND: ("SendMessage", "message/send"),
    Operation.STREAM: ("SendStreamingMessage", "message/stream"),
    Operation.GET: ("GetTask", "tasks/get"),
    Operation.LIST: ("ListTasks", "tasks/list"),
    Operation.SUBSCRIBE: ("SubscribeToTask", "tasks/resubscribe"),
    Operation.CANCEL: ("CancelTask", "tasks/cancel"),
    Operation.EXTENDED_CARD: ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"),
}
"""Names of the JSON-RPC methods of 1.0 and 0.3."""

_RPC_OPERATIONS = {method: operation for operation, methods in RPC_METHODS.items() for method in methods}

# Tenants and mount points come before these (A2A 1.0, section 11.3; 0.3 puts `/v1` there).
_REST_PATH = re.compile(
    r"(?:/message:(?P<message>send|stream)|/tasks/(?P<id>[^/]+?)(?::(?P<verb>cancel|subscribe))?"
    r"|/tasks/(?P<notified>[^/]+)/pushNotificationConfigs(?:/[^/]*)?"
    r"|(?P<list>/tasks)|(?P<card>/extendedAgentCard|/v1/card|/agent/authenticatedExtendedCard))$"
)

_REST_OPERATIONS: dict[tuple[str, str | None], Operation] = {
    ("POST", "send"): Operation.SEND,
    ("POST", "stream"): Operation.STREAM,
    ("POST", "cancel"): Operation.CANCEL,
    ("GET", "subscribe"): Operation.SUBSCRIBE,
    ("POST", "subscribe"): Operation.SUBSCRIBE,
    ("GET", "id"): Operation.GET,
    ("GET", "list"): Operation.LIST,
    ("GET", "card"): Operation.EXTENDED_CARD,
}
"""By HTTP method, and the verb of the path or the name of its group in `_REST_PATH`."""

_TASK_OF_PUSH_CONFIG = re.compile(r"(?:^|/)tasks/([^/]+)|^([^/]+)$")
"""The task's id, which some versions of the protocol send alone, others within a resource name."""

_CURRENT_GENERATION = frozenset({"currentGeneration", "current_generation"})
_GENERATION_MISMATCH = -32010
"""The code in JSON-RPC."""

_RPC_METHOD = re.compile(rb'"method"\s*:\s*"([A-Za-z/]{1,64})"')


@dataclass(slots=True)
class A2ARequest:
    """An A2A request, as far as capture uses it. `message` is the user's Message (ProtoJSON or 0.3 JSON)."""

    operation: Operation
    binding: Binding
    message: dict[str, Any] | None = None
    task_id: str = ""
    includes_artifacts: bool = False
    legacy: bool = False
    """Whether the method's name is one of protocol 0.3."""
    has_webhook: bool = False
    """Whether the agent may send the results of this request to a webhook."""
    returns_at_once: bool = False
    """Whether the answer does not wait for the agent's work."""
    if_generation: int = 0
    """The generation (A2A 1.1) that the task must have for the agent to take the message; 0: any."""
    is_long_poll: bool = False
    """Whether the answer waits until the task has changed (A2A 1.1)."""

    @property
    def named_task(self) -> str:
        """The id of the task that the request is about; "" where it names none."""
        task_id = self.task_id or (self.message or {}).get("taskId")
        return task_id if isinstance(task_id, str) else ""


def rest_request(method: str, path: str, query: bytes) -> A2ARequest | None:
    """The operation that an HTTP+JSON path names, its body not yet read, or None.

    `path` is percent-decoded, as ASGI's `scope["path"]`.
    """
    match = _REST_PATH.search(path)
    if match is None:
        return None
    task_id, notified = match.group("id", "notified")
    if notified:
        return A2ARequest(Operation.PUSH_CONFIG, Binding.HTTP_JSON, task_id=notified, has_webhook=True)
    operation = _REST_OPERATIONS.get((method, match["message"] or match["verb"] or match.lastgroup))
    if operation is None:
        return None
    query = query.lower()
    return A2ARequest(
        operation,
        Binding.HTTP_JSON,
        task_id=task_id or "",
        includes_artifacts=b"includeartifacts=true" in query,
        is_long_poll=operation is Operation.GET and b"currentgeneration=" in query,
    )


def rpc_request(body: Any) -> A2ARequest | None:
    """The operation of a decoded JSON-RPC request; None for anything else.

    Agents accept requests without the field `jsonrpc` (a2a-sdk 0.3), so a method of A2A is enough.
    """
    if isinstance(body, list) and body:
        return A2ARequest(Operation.BATCH, Binding.JSONRPC)
    if not isinstance(body, dict):
        return None
    method = body.get("method")
    if not isinstance(method, str):
        return None
    concerns_webhooks = "pushnotification" in method.lower()
    if "jsonrpc" not in body and method not in _RPC_OPERATIONS and not concerns_webhooks:
        return None
    params = body.get("params")
    if not isinstance(params, dict):
        params = {}
    request = A2ARequest(_RPC_OPERATIONS.get(method, Operation.OTHER), Binding.JSONRPC, legacy="/" in method)
    if request.operation in SENDS_MESSAGE:
        read_send(request, params)
    elif concerns_webhooks:
        request.operation, request.has_webhook = Operation.PUSH_CONFIG, True
        request.task_id = _task_of_push_config(params)
    elif isinstance(params.get("id"), str):
        request.task_id = params["id"]
        request.is_long_poll = request.operation is Operation.GET and _CURRENT_GENERATION & params.keys() != set()
    request.includes_artifacts = params.get("includeArtifacts") is True
    return request


def _task_of_push_config(params: dict[str, Any]) -> str:
    """The id of the task whose push-notification configurations a JSON-RPC request is about."""
    for field in ("taskId", "task_id", "parent", "name", "id"):
        value = params.get(field)
        if isinstance(value, str) and (match := _TASK_OF_PUSH_CONFIG.search(value)):
            return match[1] or match[2]
    return ""


class ParsedRequest(NamedTuple):
    """What a body of a request holds."""

    request: A2ARequest | None
    """None also where it cannot be read: it is the agent's to answer."""
    asks: bool = False
    """Whether a message in it asks for the extension."""
    is_too_large: bool = False


def parsed_request(rest: A2ARequest | None, content: bytes | None, payload: Any = None) -> ParsedRequest:
    """Read a body. `rest` is the request as far as its path names it, None where only the body does (JSON-RPC).
    `content`: the body, decoded, or None where that is too much; `payload`: what it holds, where the caller has it."""
    if content is None or has_too_many_values(content):
        return ParsedRequest(None, is_too_large=True)
    request = rest
    if request is None or request.operation in SENDS_MESSAGE:
        try:
            payload = decode_json(content) if content and payload is None else payload
        except ValueError:
            return ParsedRequest(None)
        if request is None:
            request = rpc_request(payload)
        else:
            read_send(request, payload)
    if request is None:
        return ParsedRequest(None)
    if request.operation is Operation.BATCH:  # not captured, but one that asks gets what it asked for
        messages = [user_message(item.get("params")) for item in payload if isinstance(item, dict)]
        return ParsedRequest(request, any(message is not None and _asks(message) for message in messages))
    message = request.message
    return ParsedRequest(request, message is not None and "extensions" in message and _asks(message))


def _asks(message: dict[str, Any]) -> bool:
    """Whether the user's message lists the extension."""
    extensions = message.get("extensions")
    return isinstance(extensions, list) and any(map(is_capture_uri, extensions))


def rpc_method(beginning: bytes) -> A2ARequest | None:
    """The operation of a JSON-RPC request of which only the beginning is known, if that names its method."""
    match = _RPC_METHOD.search(beginning)
    method = match.group(1).decode() if match else ""
    operation = _RPC_OPERATIONS.get(method)
    return None if operation is None else A2ARequest(operation, Binding.JSONRPC, legacy="/" in method)


def user_message(params: Any) -> dict[str, Any] | None:
    """The Message of a SendMessageRequest (JSON-RPC params or HTTP+JSON body), its keys in ProtoJSON's spelling.

    0.3's proto calls the field `request`, with the JSON name `message`; ProtoJSON allows both.
    """
    if not isinstance(params, dict):
        return None
    message = params.get("message") or params.get("request")
    return camel_keys(message) if isinstance(message, dict) else None


def read_send(request: A2ARequest, params: Any) -> None:
    """Complete a request with what its SendMessageRequest (JSON-RPC params or HTTP+JSON body) contains.

    `returnImmediately` is `blocking: false` in 0.3.
    """
    request.message = user_message(params)
    configuration = params.get("configuration") if isinstance(params, dict) else None
    if not isinstance(configuration, dict):
        return
    request.returns_at_once = (
        configuration.get("returnImmediately", configuration.get("return_immediately")) is True
        or configuration.get("blocking") is False
    )
    required = configuration.get("ifGenerationMatch", configuration.get("if_generation_match"))
    request.if_generation = generation_of({"generation": required}) if required is not None else 0


def is_generation_mismatch(error: Any) -> bool:
    """Whether an error over JSON-RPC or HTTP+JSON is A2A 1.1's TaskGenerationMismatchError."""
    if not isinstance(error, dict):
        return False
    details = error.get("data", error.get("details"))
    reasons = [one.get("reason") for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    return error.get("code") == _GENERATION_MISMATCH or "TASK_GENERATION_MISMATCH" in reasons


def encoded(value: Any, otherwise: bytes) -> bytes:
    """The JSON of a decoded value; `otherwise` for one that orjson refuses, such as NaN."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return otherwise


def decode_json(body: bytes) -> Any:
    """Decode with orjson; what it refuses (NaN, lone surrogates) by `read_json`.

    Raises ValueError for text that is not JSON, or nests too deeply for both.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return read_json(body)
        except RecursionError:
            raise ValueError("nested too deeply") from None
