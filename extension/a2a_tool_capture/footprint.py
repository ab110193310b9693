"""How much memory values take while they are held as Python objects. Estimates, cheap enough for every event."""

from __future__ import annotations

from collections.abc import Iterable
from sys import getsizeof
from typing import Any

from .models import ToolCall

_CONTAINERS = {dict, list}
_CALL_BYTES = 600
"""Of a call without its arguments and texts: about what CPython takes."""


def value_bytes(value: Any) -> int:
    """Bytes of a JSON value. Without recursion, since agents decide how deep it nests."""
    size = getsizeof(value)
    left = [value] if type(value) in _CONTAINERS else []
    for one in left:  # which grows
        inner = [*one, *one.values()] if type(one) is dict else one
        size += sum(map(getsizeof, inner))
        left += [item for item in inner if type(item) in _CONTAINERS and item]
    return size


def texts_bytes(texts: Iterable[str]) -> int:
    """Bytes of texts. One with an emoji takes four bytes for each of its characters."""
    return sum(map(getsizeof, texts))


def calls_bytes(calls: Iterable[ToolCall]) -> int:
    """Bytes of tool calls."""
    size = 0
    for call in calls:
        texts = call.id, call.name, call.result, call.error
        size += _CALL_BYTES + value_bytes(call.arguments) + sum(map(getsizeof, texts))
    return size
