"""OTLP attribute values as plain Python values, bounded in text, depth and number of items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from a2a_tool_capture.json_depth import ATTRIBUTE
from a2a_tool_capture.spans.model import MAX_TEXT, CutText, bounded
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

MAX_ITEMS = 20_000
"""Maximum number of values in one attribute; a larger or deeper one is discarded."""


class _TooLargeError(Exception):
    """The value exceeds ATTRIBUTE or MAX_ITEMS."""


def attributes_from_proto(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """The attributes of a protobuf message; never raises. The last of two equal keys wins."""
    attributes = {}
    for pair in pairs:
        value = pair.value
        text = value.string_value
        attributes[pair.key] = text if text and len(text) <= MAX_TEXT else value_from_proto(value)
    return attributes


def value_from_proto(value: AnyValue) -> Any:
    """One protobuf value; never raises."""
    try:
        return _Reader().read(value, 0)
    except _TooLargeError:
        return CutText("")


class _Reader:
    def __init__(self) -> None:
        self._items = 0

    def read(self, value: AnyValue, depth: int) -> Any:
        self._items += 1
        if self._items > MAX_ITEMS or depth > ATTRIBUTE:
            raise _TooLargeError
        kind = value.WhichOneof("value")
        if kind is None:
            return None
        if kind == "array_value":
            return [self.read(item, depth + 1) for item in value.array_value.values]
        if kind == "kvlist_value":
            return {pair.key: self.read(pair.value, depth + 1) for pair in value.kvlist_value.values}
        content = getattr(value, kind)
        return bounded(content) if kind == "string_value" else content
