"""What the proxy changes in messages and statuses: the URLs of webhooks, addresses in extended agent cards, details of
errors that hold the extension."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import orjson
from a2a_tool_capture.extension_filter import names_extension
from a2a_tool_capture.spec import is_capture_uri
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from google.rpc.status_pb2 import Status as StatusMessage

from ..net.grpc_wire import DETAILS, GrpcStatus, decoded_value, encoded_value, ending
from ..net.http2_streams import Fields
from ..protocol.agent_card import RewrittenCard
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


_REWRITTEN = frozenset({"supported_interfaces", "additional_interfaces", "url", "preferred_transport", "signatures"})
"""The fields that name addresses, or sign them, in 1.0 and in 0.3."""


def with_own_addresses(method: A2AMethod, data: bytes, rewrite: Callable[[dict[str, Any]], RewrittenCard]) -> bytes:
    """The agent's extended card with the proxy's addresses, its other fields untouched."""
    try:
        card: Any = decoded(method.response_type, data)
        rewritten = rewrite(as_json(card))
        if not rewritten.changed:
            return data
        fields = [field for field in card.DESCRIPTOR.fields if field.name in _REWRITTEN]
        content = {field.json_name: rewritten.card.get(field.json_name) for field in fields}
        for field in fields:
            card.ClearField(field.name)
        card.MergeFrom(ParseDict(content, type(card)()))
        return bytes(card.SerializeToString())
    except ValueError as error:
        logger.warning("the extended agent card cannot be read; its addresses may lead past the proxy: %s", error)
        return data


def shown_error(trailers: Fields) -> Fields:
    """The trailers of an error for a client that did not ask for tool calls."""
    found = [(name, _shown(value) if name == DETAILS else value) for name, value in trailers]
    return [(name, value) for name, value in found if value is not None]


def _shown(value: bytes) -> bytes | None:
    """The details without the extension; None: details that cannot be read and may hold some of it.

    An ErrorInfo loses the keys of the extension; another detail that names the extension is left out.
    """
    try:
        encoded = decoded_value(value)
    except ValueError:
        return value  # its client cannot read it either
    if not names_extension(encoded):
        return value
    try:
        status = Status.FromString(encoded)
        for detail in status.details:
            if detail.Is(ErrorInfo.DESCRIPTOR):
                info = ErrorInfo.FromString(detail.value)
                for name in [name for name in info.metadata if is_capture_uri(name)]:
                    del info.metadata[name]
                detail.value = info.SerializeToString()
    except DecodeError:
        return None
    kept = [detail for detail in status.details if not names_extension(detail.value)]
    del status.details[:]
    status.details.extend(kept)
    return encoded_value(status.SerializeToString())
