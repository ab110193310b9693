"""Webhooks in calls: set with the proxy's address, shown with their clients' own URLs, or refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status as StatusMessage

from ..net.grpc_wire import GrpcStatus, ending
from ..net.http2_streams import Fields
from ..net.http_client import RawHeaders
from ..protocol.error_bodies import A2A_DOMAIN, PUSH_NOT_SUPPORTED
from ..protocol.operations import A2ARequest
from ..protocol.webhooks import NewWebhook
from ..push.registry import WebhookRegistry
from ..push.rewriting import deleted_config
from ..relay.relayed_exchange import RelayedExchange
from ..relay.webhook_request import RefusedWebhookError, WebhookRequest
from ..store import StoreError
from .messages import A2AMethod, as_json, decoded, fields_within

logger = logging.getLogger(__name__)

_CONFIGS = frozenset({"TaskPushNotificationConfig", "PushNotificationConfig"})
"""The messages that hold the URL of a webhook, in 1.0 and in 0.3."""


def webhooks_in(request: Message) -> list[Any]:
    """The configurations in a request that set a webhook."""
    found = fields_within(request)
    return [one for one, field, _ in found if field.name == "url" and one.DESCRIPTOR.name in _CONFIGS]


def replace_texts(message: Message, replacement: Callable[[str], str]) -> None:
    """Replace each text in `message`; keys of maps stay."""
    for one, field, values in fields_within(message):
        if field.type == field.TYPE_STRING:
            texts = [replacement(text) for text in values]
            if field.is_repeated:
                getattr(one, field.name)[:] = texts
            else:
                setattr(one, field.name, texts[0])


class WebhookCall(WebhookRequest):
    """A call about webhooks that are relayed. The proxy's addresses are set in its request message."""

    def __init__(
        self,
        registry: WebhookRegistry,
        method: A2AMethod,
        path: str,
        message: Message,
        request: A2ARequest,
        headers: RawHeaders,
    ) -> None:
        super().__init__(registry, request, headers)
        self._method = method
        self._message = message
        self._deleted = deleted_config("POST", "", {"method": path, "params": as_json(message)})
        self._configs = webhooks_in(message)
        self.changed = False
        """Whether the request message has addresses of the proxy."""

    def _wanted(self) -> list[NewWebhook]:
        return [NewWebhook(config.url, config.id) for config in self._configs]

    def _replace(self, addresses: list[str]) -> None:
        for config, address in zip(self._configs, addresses, strict=True):
            config.url = address
        self.changed = True

    async def learn_response(self, exchange: RelayedExchange, data: bytes) -> None:
        """Take over what a response about configurations shows."""
        try:
            content = as_json(decoded(self._method.response_type, data))
            await self.learn(content, self._deleted)
        except (ValueError, StoreError) as error:
            logger.warning("a response about webhooks was not read: %s", error)
        else:
            self.notice_foreign(orjson.dumps(content), exchange)


async def with_own_urls(registry: WebhookRegistry, method: A2AMethod, data: bytes) -> bytes:
    """A response message with the clients' own URLs where the agent repeats addresses of the proxy."""
    if not registry.addresses.may_be_in(data):
        return data
    try:
        message = decoded(method.response_type, data)
        urls = await registry.own_urls(orjson.dumps(as_json(message)))
    except (ValueError, StoreError) as error:
        logger.warning("a client may see the proxy's address in place of its webhook's: %s", error)
        return data
    if not urls:
        return data
    replace_texts(message, lambda text: registry.addresses.restored_text(text, urls))
    return bytes(message.SerializeToString())


def refusal_of(error: RefusedWebhookError, *, legacy: bool) -> Fields:
    """The trailers with an error of A2A, as of an agent (1.0: section 10.6). `legacy`: of protocol 0.3."""
    problem, message = error.problem, str(error)
    code = GrpcStatus[problem.status]
    if legacy:  # the error is named in the status message
        unsupported = problem is PUSH_NOT_SUPPORTED
        name = "PushNotificationNotSupportedError" if unsupported else "InvalidParamsError"
        return ending(GrpcStatus.UNIMPLEMENTED if unsupported else code, f"{name}: {message}")
    detail = AnyMessage()
    detail.Pack(ErrorInfo(reason=problem.reason, domain=A2A_DOMAIN))
    return ending(code, message, StatusMessage(code=code, message=message, details=[detail]).SerializeToString())
