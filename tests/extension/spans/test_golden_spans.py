"""Every recorded instrumentation converts to exactly what its agent did, as far as its spans and messages tell."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from a2a_tool_capture.models import ToolCall, ToolCallSource
from a2a_tool_capture.spans.conventions import CONVENTIONS, recognise
from a2a_tool_capture.spans.observations import read_span
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.fixtures import Fixture, fixtures

each_fixture = pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)


@each_fixture
def test_converts_to_the_expected_calls(fixture: Fixture) -> None:
    conversion = tool_calls(fixture.spans, fixture.logs)

    assert [_comparable(call) for call in conversion.tool_calls] == _wanted(fixture)


@each_fixture
def test_calls_have_the_times_of_their_outermost_span(fixture: Fixture) -> None:
    calls = tool_calls(fixture.spans, fixture.logs).tool_calls

    for call, wanted in zip(calls, fixture.expected["tool_calls"], strict=True):
        if "start_unix_nano" in wanted:
            assert (call.started_at, call.ended_at) == (
                _time(wanted["start_unix_nano"]),
                _time(wanted["end_unix_nano"]),
            )


@each_fixture
def test_look_alikes_are_no_calls(fixture: Fixture) -> None:
    look_alikes = {entry["span_id"] for entry in fixture.expected.get("not_tool_calls", ())}

    assert [span.name for span in fixture.spans if span.span_id in look_alikes and read_span(span)] == []


@each_fixture
def test_no_span_id_becomes_a_call_id(fixture: Fixture) -> None:
    spans = fixture.spans
    span_ids = {span.span_id for span in spans}

    assert not span_ids & {call.id for call in tool_calls(spans, fixture.logs).tool_calls}


def test_every_convention_has_a_recording() -> None:
    seen = {row.name for fixture in fixtures() for span in fixture.spans if (row := recognise(span))}

    assert seen == {convention.name for convention in CONVENTIONS} - {"uipath"}  # of which its own package judges


def _comparable(call: ToolCall) -> dict[str, Any]:
    assert call.source is ToolCallSource.OTEL_TRACE
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "result": _as_json(call.result),
        "error": call.error,
    }


def _wanted(fixture: Fixture) -> list[dict[str, Any]]:
    return [
        {
            "id": _wanted_id(call, truth),
            "name": call["name"],
            "arguments": _first_known(call, "arguments"),
            "result": _as_json(_wanted_result(call)),
            "error": call["error"],
        }
        for call, truth in zip(
            fixture.expected["tool_calls"],
            fixture.expected["truth"][: len(fixture.expected["tool_calls"])],
            strict=True,
        )
    ]


def _wanted_id(call: dict[str, Any], truth: dict[str, Any]) -> str:
    """The span's, else the messages'; where these name the output item (`fc_...`), the call's own."""
    known = _first_known(call, "id") or ""
    return truth["llm_tool_call_id"] if known.startswith("fc_") else known


def _wanted_result(call: dict[str, Any]) -> Any:
    """The span's, else the messages'; none of a failed call, unless its error is but a type."""
    if call["error"] in (None, "TOOL_ERROR"):
        return _first_known(call, "result")
    return None


def _first_known(call: dict[str, Any], key: str) -> Any:
    return call[key] if call[key] is not None else call.get("from_messages", {}).get(key)


def _as_json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _time(unix_nano: str) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(unix_nano) // 1000)
