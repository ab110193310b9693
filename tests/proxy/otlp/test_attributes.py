"""Attribute values are bounded in depth, whatever is sent."""

from __future__ import annotations

from a2a_eval_proxy.otlp.spans import value_from_proto
from a2a_tool_capture.json_limits import ATTRIBUTE
from a2a_tool_capture.spans.model import CutText
from opentelemetry.proto.common.v1.common_pb2 import AnyValue


def nested(depth: int, *, in_arrays: bool = False) -> AnyValue:
    value = AnyValue(string_value="bottom")
    for _ in range(depth):
        outer = AnyValue()
        inner = outer.array_value.values.add() if in_arrays else outer.kvlist_value.values.add(key="k").value
        inner.CopyFrom(value)
        value = outer
    return value


def test_nesting_is_read_as_deep_as_allowed() -> None:
    read = value_from_proto(nested(ATTRIBUTE))

    for _ in range(ATTRIBUTE):
        read = read["k"]
    assert read == "bottom"


def test_deep_protobuf_values_are_not_kept() -> None:
    assert isinstance(value_from_proto(nested(ATTRIBUTE + 1, in_arrays=True)), CutText)


def test_an_empty_string_and_no_value_differ() -> None:
    assert value_from_proto(AnyValue(string_value="")) == ""
    assert value_from_proto(AnyValue()) is None
