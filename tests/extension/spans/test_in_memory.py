"""Spans and log records that were never on the wire, in every form in which programs hold them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from typing import Any

import pytest
from a2a_tool_capture.json_limits import ATTRIBUTE
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import KIND_CLIENT, MAX_TEXT, STATUS_ERROR, STATUS_UNSET, CutText
from a2a_tool_capture.spans.tool_calls import tool_calls
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.sampled_from(
    [
        "name",
        "Name",
        "attributes",
        "Attributes",
        "context",
        "parent",
        "parent_id",
        "status",
        "Status",
        "code",
        "kind",
        "start_time",
        "EndTime",
        "events",
        "scope",
        "trace_id",
        "span_id",
        "Id",
        "arguments",
        "error",
        "timestamp",
        "log_record",
        "body",
        "event_name",
        "gen_ai.operation.name",
        "tool.name",
        "input.value",
        "id",
        "result",
    ]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(JUNK, max_size=3), st.lists(JUNK, max_size=2))
def test_anything_is_read_or_refused(spans: list[Any], logs: list[Any]) -> None:
    with suppress(ValueError):
        tool_calls([span_of(span, place) for place, span in enumerate(spans)], map(log_of, logs))


class Kind(Enum):
    CLIENT = 2


@pytest.mark.parametrize("kind", [Kind.CLIENT, "CLIENT", "SpanKind.CLIENT", "SPAN_KIND_CLIENT"])
def test_kinds(kind: Any) -> None:
    assert span_of({"kind": kind}).kind == KIND_CLIENT


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"status_code": "ERROR", "description": "late"}, STATUS_ERROR, "late"),
        ({"code": 2, "message": "late"}, STATUS_ERROR, "late"),
        ({"code": "STATUS_CODE_ERROR"}, STATUS_ERROR, ""),
        ("error", STATUS_ERROR, ""),
        (2, STATUS_ERROR, ""),
        (None, STATUS_UNSET, ""),
        ({}, STATUS_UNSET, ""),
        ("odd", STATUS_UNSET, ""),
    ],
)
def test_statuses(status: Any, code: int, message: str) -> None:
    span = span_of({"status": status})
    assert (span.status_code, span.status_message) == (code, message)


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_NS = 1_769_860_800 * 10**9


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        (NOON_NS + 1, NOON_NS + 1),
        (NOON, NOON_NS),
        (NOON.replace(tzinfo=None), NOON_NS),
        (NOON.astimezone(timezone(timedelta(hours=1))), NOON_NS),
        ("2026-01-31T12:00:00.000001Z", NOON_NS + 1000),
        ("2026-01-31T12:00:00", NOON_NS),
        ("noon", 0),
        (None, 0),
        (1.5, 0),
    ],
)
def test_times(time: Any, nanoseconds: int) -> None:
    assert span_of({"start_time": time}).start_ns == log_of({"timestamp": time}).time_ns == nanoseconds


def test_ids() -> None:
    context = {"trace_id": "0x" + "0A" * 16, "span_id": 10}
    span = span_of({"context": context, "parent_id": "0x" + "0b" * 8})
    assert (span.trace_id, span.span_id, span.parent_span_id) == ("0a" * 16, "000000000000000a", "0b" * 8)
    assert span_of({"span_id": "0" * 16}, 1).key != span_of({}, 2).key


def test_values_are_bounded_as_those_of_the_receiver_are() -> None:
    deep: Any = "x"
    for _ in range(ATTRIBUTE + 1):
        deep = (deep,)
    given = {"text": "x" * (MAX_TEXT + 1), "deep": deep, "list": (1, {"a": (2,)})}
    attributes = span_of({"attributes": given}).attributes
    assert isinstance(attributes["text"], CutText)
    assert len(attributes["text"]) == MAX_TEXT
    assert attributes["list"] == [1, {"a": [2]}]
    assert "x" not in str(attributes["deep"])


def test_logs() -> None:
    record = {"trace_id": 1, "attributes": {"event.name": "choice"}, "body": {"a": (1,)}, "observed_timestamp": 5}
    log = log_of({"log_record": record, "instrumentation_scope": {"name": "app"}})
    assert (log.name, log.trace_id, log.span_id, log.time_ns) == ("choice", f"{1:032x}", "", 5)
    assert (log.scope, log.body) == ("app", {"a": [1]})
