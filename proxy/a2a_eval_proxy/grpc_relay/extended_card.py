"""Extended agent cards over gRPC: they name the proxy's addresses, as cards over HTTP do. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import ParseDict

from ..protocol.agent_card import RewrittenCard
from .messages import A2AMethod, as_json, decoded

logger = logging.getLogger(__name__)

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
