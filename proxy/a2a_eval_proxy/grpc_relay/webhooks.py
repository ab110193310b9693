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
from ..protocol.error_bodies import A2A_DOMAIN, INVALID_PARAMS
from ..relay.webhooks import RefusedWebhookError, WebhookRequest, Webhooks
from .messages import A2AMethod, as_json, decoded, fields_within

logger = logging.getLogger(__name__)

_CONFIGS = frozenset({"TaskPushNotificationConfig", "PushNotificationConfig"})
"""The messages that hold the URL of a webhook, in 1.0 and in 0.3."""


def webhooks_in(request: Message) -> list[Any]:
    """The configurations in a request that set a webhook."""
    return [one for one, field, _ in fields_within(request) if field.name == "url" and one.DESCRIPTOR.name in _CONFIGS]


def replace_texts(message: Message, replacement: Callable[[str], str]) -> None:
    """Replace each text in `message`; keys of maps stay."""
    for one, field, values in fields_within(message):
        if field.type == field.TYPE_STRING:
            texts = [replacement(text) for text in values]
            if field.is_repeated:
                getattr(one, field.name)[:] = texts
            else:
                setattr(one, field.name, texts[0])


async def with_own_urls(webhooks: Webhooks, configs: WebhookRequest | None, method: A2AMethod, data: bytes) -> bytes:
    """A response message with the clients' own URLs where the agent repeats addresses of the proxy. `configs`: the
    exchange, where the response is about configurations."""
    if configs is None and not webhooks.may_show(data):
        return data
    try:
        message = decoded(method.response_type, data)
        text = orjson.dumps(as_json(message))
    except ValueError as error:
        logger.warning("a response was not read, which may show the proxy's address in place of a webhook's: %s", error)
        return data
    if configs is not None:
        await configs.answered(text)
    replacement = await webhooks.restoring(text)
    if replacement is None:
        return data
    replace_texts(message, replacement)
    return bytes(message.SerializeToString())


def refusal_of(error: RefusedWebhookError, *, legacy: bool) -> Fields:
    """The trailers with an error of A2A, as of an agent (1.0: section 10.6). `legacy`: of protocol 0.3."""
    message, code = str(error), GrpcStatus[INVALID_PARAMS.status]
    if legacy:  # the error is named in the status message
        return ending(code, f"InvalidParamsError: {message}")
    detail = AnyMessage()
    detail.Pack(ErrorInfo(reason=INVALID_PARAMS.reason, domain=A2A_DOMAIN))
    return ending(code, message, StatusMessage(code=code, message=message, details=[detail]).SerializeToString())
