"""Every recorded instrumentation converts to exactly what its agent did, as far as its spans and messages show."""

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

FIXTURES = fixtures()


def test_converts_to_the_expected_calls(subtests: pytest.Subtests) -> None:
    """Also: calls have the times of their outermost span, and no id of a span becomes the id of a call."""
    for fixture in FIXTURES:
        with subtests.test(fixture.name):
            calls = tool_calls(fixture.spans, fixture.logs).tool_calls
            assert [_comparable(call) for call in calls] == _wanted(fixture)
            for call, wanted in zip(calls, fixture.expected["tool_calls"], strict=True):
                if "start_unix_nano" in wanted:
                    assert (call.started_at, call.ended_at) == (
                        _time(wanted["start_unix_nano"]),
                        _time(wanted["end_unix_nano"]),
                    )
            assert not {span.span_id for span in fixture.spans} & {call.id for call in calls}


def test_look_alikes_are_no_calls() -> None:
    look_alikes = {
        (fixture.name, entry["span_id"]) for fixture in FIXTURES for entry in fixture.expected.get("not_tool_calls", ())
    }
    assert look_alikes
    assert [
        (fixture.name, span.name)
        for fixture in FIXTURES
        for span in fixture.spans
        if (fixture.name, span.span_id) in look_alikes and read_span(span)
    ] == []


def test_every_convention_has_a_recording() -> None:
    seen = {row.name for fixture in FIXTURES for span in fixture.spans if (row := recognise(span))}

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
