"""Tool calls and findings as JSON and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from a2a_tool_capture import METADATA_KEY, URI, Finding, Severity, ToolCall, ToolCallSource, read_tool_calls
from a2a_tool_capture.models import rfc3339
from a2a_tool_capture.recorder import wire_entry
from hypothesis import given
from hypothesis import strategies as st
from support.junk import plain_json

times = st.datetimes(
    min_value=datetime(1970, 1, 1),
    max_value=datetime(2100, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)
tool_calls = st.builds(
    ToolCall,
    name=st.text(min_size=1),
    arguments=st.none() | st.dictionaries(st.text(), plain_json, max_size=3),
    id=st.text(),
    result=st.none() | st.text(),
    error=st.none() | st.text(),
    source=st.sampled_from(ToolCallSource),
    started_at=st.none() | times,
    ended_at=st.none() | times,
    metadata=st.dictionaries(st.text(), plain_json, max_size=2),
)


@given(tool_calls)
def test_a_call_survives_its_json_form(call: ToolCall) -> None:
    assert ToolCall.from_dict(json.loads(json.dumps(call.to_dict()))) == call


@pytest.mark.statement(228)
def test_the_json_form_of_a_call() -> None:
    call = ToolCall("pay", {"eur": 1}, id="1", started_at=datetime(2026, 11, 21, 9, 0, tzinfo=UTC))
    assert call.to_dict() == {
        "id": "1",
        "name": "pay",
        "arguments": {"eur": 1},
        "result": None,
        "error": None,
        "source": "client",
        "started_at": "2026-11-21T09:00:00.000000Z",
    }


@pytest.mark.statement(229)
def test_metadata_is_kept_in_the_json_form_and_stays_off_the_wire() -> None:
    call = ToolCall("pay", {"eur": 1}, metadata={"latency_ms": 12, "tokens": 3})
    assert call.to_dict()["metadata"] == {"latency_ms": 12, "tokens": 3}
    assert "metadata" not in ToolCall("pay").to_dict()
    assert "metadata" not in wire_entry(call)
    artifact = {"extensions": [URI], "metadata": {METADATA_KEY: [{"name": "pay", "metadata": {"latency_ms": 12}}]}}
    assert read_tool_calls(artifact).tool_calls == [ToolCall("pay", source=ToolCallSource.A2A_PROTOCOL)]


def test_unknown_arguments_stay_unknown_and_missing_ones_are_none_at_all() -> None:
    assert ToolCall("pay", None).to_dict()["arguments"] is None
    assert ToolCall.from_dict({"name": "pay", "arguments": None}).arguments is None
    assert ToolCall.from_dict({"name": "pay"}).arguments == {}


def test_reading_back_ignores_unknown_keys_and_names_what_is_wrong() -> None:
    assert ToolCall.from_dict({"name": "pay", "extra": 1}) == ToolCall("pay")
    with pytest.raises(KeyError):
        ToolCall.from_dict({})
    with pytest.raises(ValueError, match="elsewhere"):
        ToolCall.from_dict({"name": "pay", "source": "elsewhere"})


def test_sources_are_those_of_the_contract_and_dialects() -> None:
    assert {source.value for source in ToolCallSource} == {
        "a2a_protocol",
        "otel_trace",
        "openai_agents",
        "a2e",
        "client",
        "adk",
        "kagent",
        "traceability",
    }


@given(times)
def test_times_are_utc_with_microseconds(moment: datetime) -> None:
    text = rfc3339(moment)
    assert len(text) == len("2026-11-21T09:00:00.000000Z")
    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == moment


@given(st.builds(Finding, st.text(), st.text(), st.sampled_from(Severity), st.text()))
def test_a_finding_survives_its_json_form(finding: Finding) -> None:
    assert Finding.from_dict(json.loads(json.dumps(finding.to_dict()))) == finding
