"""Constants, values of the model, forms of events, and what JSON may be."""

from __future__ import annotations

import copy
import json
import math
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from typing import Any

import a2a_tool_capture
import pytest
from a2a_eval_proxy.protocol.operations import decode_json
from a2a_tool_capture import (
    METADATA_KEY,
    URI,
    Finding,
    Severity,
    ToolCall,
    ToolCallSource,
    agent_extension,
    read_tool_calls,
)
from a2a_tool_capture.canonical import canonical, value_key
from a2a_tool_capture.json_limits import MAX_VALUES, READ, has_too_many_values, too_deep
from a2a_tool_capture.json_values import read_json
from a2a_tool_capture.recorder import wire_entry
from a2a_tool_capture.spec import requested_uris, strip_header, strip_headers
from a2a_tool_capture.wire import EVENT_KEYS, normalize_event, normalize_state, parts_text
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.junk import almost_events, plain_json

TEXT = [{"text": "hi"}]


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        (  # 1.0: GetTask and CancelTask answer with a bare Task
            {"id": "t", "status": {"state": "TASK_STATE_WORKING"}},
            {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}},
        ),
        (  # 0.3 JSON-RPC: flat, with `kind`
            {"kind": "task", "id": "t", "status": {"state": "input-required"}, "artifacts": [{"artifactId": "a"}]},
            {"task": {"id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}, "artifacts": [{"artifactId": "a"}]}},
        ),
        (
            {"kind": "status-update", "taskId": "t", "final": True, "status": {"state": "canceled"}},
            {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_CANCELED"}}},
        ),
        (
            {"kind": "artifact-update", "taskId": "t", "artifact": {"artifactId": "a", "parts": TEXT}, "append": True},
            {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": TEXT}, "append": True}},
        ),
        (
            {"kind": "message", "messageId": "m", "role": "agent", "parts": TEXT},
            {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": TEXT}},
        ),
        (  # 0.3 HTTP+JSON: nested, parts of messages under `content`
            {"message": {"messageId": "m", "role": "ROLE_AGENT", "content": TEXT}},
            {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": TEXT}},
        ),
        (
            {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_FAILED", "message": {"content": TEXT}}}},
            {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_FAILED", "message": {"parts": TEXT}}}},
        ),
        (  # its proto spells the state with two Ls
            {"id": "t", "status": {"state": "TASK_STATE_CANCELLED"}},
            {"task": {"id": "t", "status": {"state": "TASK_STATE_CANCELED"}}},
        ),
        (  # ProtoJSON readers accept the proto's own field names
            {"artifact_update": {"task_id": "t", "artifact": {"artifact_id": "a"}, "last_chunk": True}},
            {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a"}, "lastChunk": True}},
        ),
        (
            {"task": {"id": "t", "context_id": "c", "artifacts": [{"artifact_id": "a"}, 1]}},
            {"task": {"id": "t", "contextId": "c", "artifacts": [{"artifactId": "a"}, 1]}},
        ),
        ({"message_id": "m", "parts": TEXT}, {"message": {"messageId": "m", "parts": TEXT}}),
    ],
)
def test_the_other_dialects(payload: dict[str, Any], event: dict[str, Any]) -> None:
    before = copy.deepcopy(payload)
    assert normalize_event(payload) == event
    assert payload == before


def test_names_of_our_own_are_not_read_from_the_wire() -> None:
    payload = {"task": {"id": "t"}, "\0unread": {"code": "x"}, "\0asked": 5, "more": 1}
    assert normalize_event(payload) == {"task": {"id": "t"}, "more": 1}


@pytest.mark.parametrize(
    "payload",
    [None, 1, "task", [], {}, {"kind": "task-list"}, {"task": None}, {"message": "hi"}, {"id": "t"}, {"status": {}}],
)
def test_what_is_no_event(payload: Any) -> None:
    assert normalize_event(payload) is None


@pytest.mark.parametrize(
    ("state", "normal"),
    [
        ("TASK_STATE_WORKING", "TASK_STATE_WORKING"),
        ("working", "TASK_STATE_WORKING"),
        ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
        ("canceled", "TASK_STATE_CANCELED"),
        ("TASK_STATE_CANCELLED", "TASK_STATE_CANCELED"),
        ("", None),
        (None, None),
        (3, None),
        (["working"], None),
    ],
)
def test_states(state: Any, normal: str | None) -> None:
    assert normalize_state(state) == normal


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        ({"parts": [{"text": "one "}, {"data": {}}, {"kind": "text", "text": "two"}]}, "one two"),
        ({"content": TEXT}, "hi"),
        ({"parts": []}, ""),
        ({"parts": [{"text": 1}]}, ""),
        ({"parts": [{"text": 1}, "x", {"text": "y"}]}, "y"),
        ({"parts": "hi"}, ""),
        ("hi", ""),
        (None, ""),
    ],
)
def test_text_of_parts(holder: Any, text: str) -> None:
    assert parts_text(holder) == text


@given(almost_events)
def test_any_json_is_refused_or_normalised_once(payload: Any) -> None:
    event = normalize_event(payload)
    assert event is None or any(isinstance(event.get(key), dict) for key in EVENT_KEYS)
    assert event is None or normalize_event(event) == event


OTHER = "https://example.com/other-extension/v1"
LATER = URI.replace("/v1", "/v2")


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    text = files(a2a_tool_capture).joinpath("schema", "tool-call-capture-v1.schema.json").read_text("utf-8")
    content = json.loads(text)
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)


@pytest.mark.statement(324, 331)
def test_the_declaration_is_optional_for_clients_and_has_no_parameters() -> None:
    declared = agent_extension()
    assert declared.uri == URI
    assert declared.required is False
    assert declared.description
    assert not declared.HasField("params")


@pytest.mark.parametrize(
    ("values", "uris"),
    [
        ([], []),
        (["", " , ,"], []),
        (["a, b", "b ,c"], ["a", "b", "c"]),
        ([f" {URI} "], [URI]),
    ],
)
def test_uris_of_an_extensions_header(values: list[str], uris: list[str]) -> None:
    assert requested_uris(values) == uris


@pytest.mark.parametrize(
    ("value", "left"),
    [(URI, ""), (f"{OTHER}, {URI}", OTHER), (f"{LATER},{URI}", ""), (f"{OTHER} ,b", f"{OTHER} ,b"), ("", "")],
)
def test_the_uris_of_the_extension_are_removed_from_a_header(value: str, left: str) -> None:
    assert strip_header(value) == left


def test_the_activation_is_removed_from_headers() -> None:
    headers = [
        (b"Content-Type", b"application/json"),
        (b"X-A2A-Extensions", URI.encode()),
        (b"a2a-extensions", f"{OTHER},{URI}".encode()),
        (b"X-Note", URI.encode()),
    ]
    assert strip_headers(headers) == [headers[0], (b"a2a-extensions", OTHER.encode()), headers[3]]


@pytest.mark.statement(335)
@pytest.mark.parametrize(
    "entries",
    [
        {},
        None,
        ["search"],
        [{}],
        [{"name": ""}],
        [{"name": 1}],
        [{"name": "search", "arguments": "{}"}],
        [{"name": "search", "arguments": None}],
        [{"name": "search", "id": 7}],
        [{"name": "search", "result": {"structured": True}}],
        [{"name": "search", "error": False}],
    ],
)
def test_the_schema_is_strict_where_readers_forgive(schema: Draft202012Validator, entries: Any) -> None:
    assert not schema.is_valid(entries)


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
    call = ToolCall("pay", None, id="1", started_at=datetime(2026, 11, 21, 9, 0, tzinfo=UTC))
    assert call.to_dict() == {
        "id": "1",
        "name": "pay",
        "arguments": None,
        "result": None,
        "error": None,
        "source": "client",
        "started_at": "2026-11-21T09:00:00.000000Z",
    }


@pytest.mark.statement(229)
def test_metadata_is_kept_in_the_json_form_and_stays_off_the_wire() -> None:
    call = ToolCall("pay", {"eur": 1}, metadata={"latency_ms": 12, "tokens": 3})
    assert "metadata" not in wire_entry(call)
    artifact = {"extensions": [URI], "metadata": {METADATA_KEY: [{"name": "pay", "metadata": {"latency_ms": 12}}]}}
    assert read_tool_calls(artifact).tool_calls == [ToolCall("pay", source=ToolCallSource.A2A_PROTOCOL)]


def test_reading_back_ignores_unknown_keys_and_names_what_is_wrong() -> None:
    assert ToolCall.from_dict({"name": "pay", "extra": 1}) == ToolCall("pay", {})
    with pytest.raises(KeyError):
        ToolCall.from_dict({})
    with pytest.raises(ValueError, match="elsewhere"):
        ToolCall.from_dict({"name": "pay", "source": "elsewhere"})


@given(st.builds(Finding, st.text(), st.text(), st.sampled_from(Severity), st.text()))
def test_a_finding_survives_its_json_form(finding: Finding) -> None:
    assert Finding.from_dict(json.loads(json.dumps(finding.to_dict()))) == finding


# ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def as_protobuf(value: Any) -> Any:
    """What a protobuf Struct makes of JSON: every number a float, keys in any order."""
    if isinstance(value, dict):
        return {key: as_protobuf(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return [as_protobuf(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (10**20, 1e20, True),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ((1, 2), [1, 2], True),
        (math.nan, math.nan, True),
        (True, 1, False),
        (False, 0, False),
        (1, "1", False),
        (None, "null", False),
        (None, {}, False),
        ([], {}, False),
        (1, 1.5, False),
        ([1, 2], [2, 1], False),
    ],
)
def test_equal_and_different_values(one: Any, other: Any, equal: bool) -> None:
    assert (canonical(one) == canonical(other)) is equal


@given(plain_json)
def test_the_text_is_json_of_the_value_whichever_way_it_came(value: Any) -> None:
    assert canonical(as_protobuf(value)) == canonical(value)
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(plain_json, plain_json)
def test_different_texts_mean_different_values(one: Any, other: Any) -> None:
    assume(canonical(one) != canonical(other))
    assert json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


def nested(depth: int, make: str) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value] if make == "list" else {"a": value}
    return value


@pytest.mark.parametrize("make", ["list", "object"])
def test_depth(make: str) -> None:
    assert not too_deep(nested(READ, make))
    assert too_deep(nested(READ + 1, make))
    assert too_deep(nested(100_000, "list"))
    canonical(nested(READ, make))


@pytest.mark.parametrize("whole", [2**53 + 1, 1234567890123456789, 10**23, -(10**23)])
def test_a_whole_number_is_by_value_the_double_that_it_is_rounded_to(whole: int) -> None:
    nested = {"a": [whole, {"b": whole}]}
    rounded = {"a": [float(whole), {"b": float(whole)}]}
    assert value_key(nested) == value_key(rounded)
    assert hash(value_key(nested)) == hash(value_key(rounded))
    assert value_key({"a": whole}) != value_key({"a": whole + 1})
    assert value_key({"a": whole}) != value_key({"a": float(whole) * 2})


json_values = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,[{"\\'), inner),
    max_leaves=40,
)


def marks(value: Any) -> int:
    """The commas and opening brackets of `value` as JSON, those in strings aside."""
    if isinstance(value, dict | list):
        items = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(len(items) - 1, 0) + sum(map(marks, items))
    return 0


@given(value=json_values)
def test_only_marks_outside_strings_count(value: Any) -> None:
    text = json.dumps(value) + " " * 300_000  # shorter texts are not looked into
    assert has_too_many_values(text, 5) == has_too_many_values(text.encode(), 5) == (marks(value) > 5)


@pytest.mark.parametrize("row", ["1,2,3,4\n", '[{"nested": "json"}]', "\\"])
def test_a_long_text_is_one_value(row: str) -> None:
    text = json.dumps({"text": row * 1_000_000})
    assert not has_too_many_values(text)
    assert not has_too_many_values(text.encode())


def test_values_behind_a_string_without_an_end_are_never_parsed() -> None:
    assert not has_too_many_values('{"text": "' + "[]," * MAX_VALUES)


def test_strings_that_are_not_json_cost_a_bounded_number_of_steps() -> None:
    text = b'["' + b"," * MAX_VALUES + b'"' + b'""' * 10_000_000 + b"]"
    assert has_too_many_values(text + b"," * MAX_VALUES + b",")
    assert not has_too_many_values(text)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_judged_by_the_upper_bound(codec: str) -> None:
    assert has_too_many_values(json.dumps(["," * (MAX_VALUES + 1)]).encode(codec))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1234567890123456788", 1234567890123456788),
        ("18446744073709551616", 1.8446744073709552e19),
        ("2.50", 2.5),
        ("1e400", "inf"),
        ("-1e400", "-inf"),
        ("NaN", "nan"),
        ("-Infinity", "-inf"),
        ("1e-400", 0.0),
        ("9" * 400, int("9" * 400)),
    ],
)
def test_a_number_is_the_same_for_both_readers_and_stays_json(text: str, value: object) -> None:
    assert read_json(f"[{text}]") == decode_json(f"[{text}]".encode()) == [value]
    assert json.dumps(value, allow_nan=False)
