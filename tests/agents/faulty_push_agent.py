"""Agents that notify webhooks wrongly, one way each: the right one of `agents.capture_agent` with senders of its own.

`PUSH_FAULTS` names for each fault the rules of `a2a-eval-proxy check` that it breaks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, PushNotificationSender
from a2a.types import AgentCard, ListTaskPushNotificationConfigsResponse
from a2a.utils.errors import InvalidParamsError, PushNotificationNotSupportedError, TaskNotFoundError
from a2a.utils.proto_utils import to_stream_response
from agents.capture_agent import METADATA_KEY, URI, CaptureExecutor, GatedHandler, agent_card, request_handler
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from support.patience import PATIENCE_S

Json = dict[str, Any]

UNKEPT = httpx.Limits(max_keepalive_connections=0)
"""Connections that no test has to close."""


class Webhooks(InMemoryPushNotificationConfigStore):
    """Knows when a client reads the webhooks of a task."""

    def __init__(self) -> None:
        super().__init__()
        self.read_of: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def get_info(self, task_id: str, *arguments: Any) -> Any:
        self.read_of[task_id].set()
        return await super().get_info(task_id, *arguments)


class PatientExecutor(CaptureExecutor):
    """Works on a message that is answered at once only when its client has set a webhook and read it."""

    webhooks: Webhooks

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        wanted = context.configuration
        sets_webhook = wanted is not None and wanted.HasField("task_push_notification_config")
        self._patient = wanted is not None and wanted.return_immediately and not sets_webhook
        await super().execute(context, event_queue)

    async def begun(self, task_id: str) -> None:
        if self._patient:
            await self.webhooks.read_of[task_id].wait()


class Sender(PushNotificationSender):
    """Sends as the specification says, and repeats after a 503."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def send_notification(self, task_id: str, event: Any) -> None:
        for webhook in await self._webhooks.get_info_for_dispatch(task_id):
            await self.notify(webhook, MessageToDict(to_stream_response(event)))

    async def notify(self, webhook: Any, event: Json) -> None:
        if await self.post(webhook, event) == 503:
            await self.post(webhook, event)

    async def post(self, webhook: Any, event: Json) -> int:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=UNKEPT) as client:
            response = await client.post(webhook.url, content=self.body(event), headers=self.headers(webhook))
        return response.status_code

    def body(self, event: Json) -> bytes:
        return orjson.dumps(event)

    def headers(self, webhook: Any) -> dict[str, str]:
        return {
            "Content-Type": "application/a2a+json",
            "Authorization": f"{webhook.authentication.scheme} {webhook.authentication.credentials}",
            "X-A2A-Notification-Token": webhook.token,
        }


def _with_headers(**changed: str | None) -> type[Sender]:
    class Changed(Sender):
        def headers(self, webhook: Any) -> dict[str, str]:
            headers = {**super().headers(webhook), **{name.replace("_", "-"): text for name, text in changed.items()}}
            return {name: text for name, text in headers.items() if text is not None}

    return Changed


def _with_body(body: Callable[[Json], Any]) -> type[Sender]:
    class Changed(Sender):
        def body(self, event: Json) -> bytes:
            return orjson.dumps(body(event))

    return Changed


class _Silent(Sender):
    async def notify(self, webhook: Any, event: Json) -> None:
        pass


class _TriesOnce(Sender):
    async def notify(self, webhook: Any, event: Json) -> None:
        await self.post(webhook, event)


def _state(event: Json) -> str:
    return event.get("statusUpdate", {}).get("status", {}).get("state", "")


class _SkipsWorking(Sender):
    async def notify(self, webhook: Any, event: Json) -> None:
        if _state(event) != "TASK_STATE_WORKING":
            await super().notify(webhook, event)


class _Twice(Sender):
    async def notify(self, webhook: Any, event: Json) -> None:
        await super().notify(webhook, event)
        if _state(event) == "TASK_STATE_WORKING":
            await super().notify(webhook, event)


class _WorkingLate(Sender):
    """Sends the state `working` after the first artifact."""

    def __init__(self, webhooks: Webhooks) -> None:
        super().__init__(webhooks)
        self._held: dict[str, Json] = {}

    async def notify(self, webhook: Any, event: Json) -> None:
        if _state(event) == "TASK_STATE_WORKING":
            self._held[webhook.url] = event
            return
        await super().notify(webhook, event)
        if "artifactUpdate" in event and webhook.url in self._held:
            await super().notify(webhook, self._held.pop(webhook.url))


def _of_another_task(event: Json) -> Json:
    ((key, value),) = event.items()
    return {key: {**value, "id" if key == "task" else "taskId": "another"}}


def _with_calls(event: Json) -> Json:
    if "artifactUpdate" in event:
        artifact = event["artifactUpdate"]["artifact"]
        artifact |= {"extensions": [URI], "metadata": {METADATA_KEY: [{"id": "a", "name": "search"}]}}
    return event


class _RefusesInMessages(GatedHandler):
    async def on_message_send_stream(self, params: Any, context: Any) -> Any:
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        async for event in super().on_message_send_stream(params, context):
            yield event


class _RefusesAddresses(GatedHandler):
    async def on_message_send_stream(self, params: Any, context: Any) -> Any:
        if params.configuration.HasField("task_push_notification_config"):
            raise InvalidParamsError(message="the webhook is at a private address")
        async for event in super().on_message_send_stream(params, context):
            yield event


class _RefusesToCreate(GatedHandler):
    async def on_create_task_push_notification_config(self, params: Any, context: Any) -> Any:
        self._push_config_store.read_of[params.task_id].set()  # the task goes on
        raise PushNotificationNotSupportedError


class _CannotGet(GatedHandler):
    async def on_get_task_push_notification_config(self, params: Any, context: Any) -> Any:
        raise TaskNotFoundError


class _ListsNothing(GatedHandler):
    async def on_list_task_push_notification_configs(self, params: Any, context: Any) -> Any:
        return ListTaskPushNotificationConfigsResponse()


class _DeletesNothing(GatedHandler):
    async def on_delete_task_push_notification_config(self, params: Any, context: Any) -> None:
        pass


@dataclass(frozen=True)
class PushFault:
    """`breaks` are the rules that must fail, and no others may; `warns` those that must warn.

    `omits`: whether what the agent does wrong is to send nothing at all.
    """

    breaks: set[str] = field(default_factory=set)
    warns: set[str] = field(default_factory=set)
    sender: type[Sender] = Sender
    handler: type[GatedHandler] = GatedHandler
    omits: bool = False


PUSH_FAULTS = {
    "refuses webhooks in messages": PushFault({"push-in-message"}, handler=_RefusesInMessages),
    "refuses to create webhooks": PushFault({"push-create"}, handler=_RefusesToCreate),
    "cannot get webhooks": PushFault({"push-get"}, handler=_CannotGet),
    "lists no webhooks": PushFault({"push-list"}, handler=_ListsNothing),
    "deletes no webhooks": PushFault({"push-delete"}, handler=_DeletesNothing),
    "silent": PushFault({"push-delivered"}, sender=_Silent, omits=True),
    "without credentials": PushFault({"push-authentication"}, sender=_with_headers(Authorization=None)),
    "with other credentials": PushFault({"push-authentication"}, sender=_with_headers(Authorization="Bearer other")),
    "without token": PushFault(warns={"push-token"}, sender=_with_headers(X_A2A_Notification_Token=None)),
    "as text": PushFault({"push-content-type"}, sender=_with_headers(Content_Type="text/plain")),
    "as plain JSON": PushFault(
        warns={"push-media-type"}, sender=_with_headers(Content_Type="application/json; charset=utf-8")
    ),
    "in JSON-RPC": PushFault(
        {"push-payload"}, sender=_with_body(lambda event: {"jsonrpc": "2.0", "id": 1, "result": event})
    ),
    "without the object around it": PushFault(
        {"push-payload"}, sender=_with_body(lambda event: event.get("task", event))
    ),
    "of another task": PushFault({"push-task"}, sender=_with_body(_of_another_task)),
    "skips a state": PushFault({"push-states"}, sender=_SkipsWorking),
    "out of order": PushFault(warns={"push-order"}, sender=_WorkingLate),
    "twice": PushFault(warns={"push-once"}, sender=_Twice),
    "tries once": PushFault(warns={"push-retry"}, sender=_TriesOnce),
    "shows calls": PushFault({"push-silent"}, sender=_with_body(_with_calls)),
}

REFUSES_ADDRESSES = PushFault(handler=_RefusesAddresses)


def pushing_handler(card: AgentCard, fault: PushFault | None = None, **options: Any) -> tuple[GatedHandler, Webhooks]:
    """What answers the requests of an agent that notifies webhooks, and its store of webhooks."""
    fault, webhooks = fault or PushFault(), Webhooks()
    card.capabilities.push_notifications = True

    class Executor(PatientExecutor):
        pass

    Executor.webhooks = webhooks
    handler = request_handler(
        card,
        executor_type=Executor,
        handler_type=fault.handler,
        push_config_store=webhooks,
        push_sender=fault.sender(webhooks),
        **options,
    )
    return handler, webhooks


def pushing_app(url: str, fault: PushFault | None = None, *, every_interface: bool = False) -> Any:
    """The ASGI application of an agent reached at `url`; its card names JSON-RPC 1.0 or `every_interface`.

    `app.state.webhooks` is its store of webhooks.
    """
    card = agent_card(url)
    if not every_interface:
        del card.supported_interfaces[1:]
    handler, webhooks = pushing_handler(card, fault)
    app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
        ]
    )
    app.state.webhooks = webhooks
    return app
