"""The recorded spans of every instrumentation, read without the proxy and with it: the same calls."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from a2a_eval_proxy.traces.merge import TraceEvidence
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture.models import ToolCall
from golden.spans.fixtures import fixtures
from golden.spans.sdk_forms import in_json, sdk_log, sdk_span
from tool_call_evaluators import AgentTrace


def read(spans: list[Any], logs: list[Any]) -> AgentTrace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some recordings show no call
        return AgentTrace.from_spans(spans, logs=logs)


def test_a_recording_shows_the_same_calls_at_both_doors() -> None:
    recordings = fixtures()
    assert len(recordings) == 73
    for recording in recordings:
        turn = TraceEvidence(recording.spans, recording.logs).added_to(Turn("t", "run", "agent", "JSONRPC", "1.0", 0.0))
        spans, logs = list(map(sdk_span, recording.spans)), list(map(sdk_log, recording.logs))
        (own,) = read(spans, logs).turns
        assert list(own.tool_calls) == turn.tool_calls, recording.name
        assert (own.calls_unseen is None) == bool(turn.tool_calls or turn.shown_by), recording.name
        in_text = read(list(map(in_json, spans)), list(map(in_json, logs))).tool_calls
        assert list(map(timeless, in_text)) == list(map(timeless, turn.tool_calls)), recording.name


def timeless(call: ToolCall) -> ToolCall:
    return replace(call, started_at=None, ended_at=None)  # JSON has rounded them
