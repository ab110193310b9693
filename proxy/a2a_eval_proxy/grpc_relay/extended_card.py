"""Extended agent cards over gRPC: they name the proxy's addresses, as cards over HTTP do. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.json_format import ParseDict

from ..protocol.agent_card import RewrittenCard, offers_push
from .messages import as_json

_REWRITTEN = frozenset({"supported_interfaces", "additional_interfaces", "url", "preferred_transport", "signatures"})
"""The fields that name addresses, or sign them, in 1.0 and in 0.3."""


def rewrite_card(card: Any, rewrite: Callable[[dict[str, Any]], RewrittenCard]) -> bool:
    """Rewrite an AgentCard in place, its other fields untouched; returns whether it changed. Raises ValueError."""
    rewritten = rewrite(as_json(card))
    if rewritten.changed:
        fields = [field for field in card.DESCRIPTOR.fields if field.name in _REWRITTEN]
        content = {field.json_name: rewritten.card.get(field.json_name) for field in fields}
        for field in fields:
            card.ClearField(field.name)
        card.MergeFrom(ParseDict(content, type(card)()))
        if card.capabilities.push_notifications and not offers_push(rewritten.card):
            card.capabilities.push_notifications = False
    return rewritten.changed
