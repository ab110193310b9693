"""Reading the calls of an artifact: the table of rules, row by row."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from a2a_tool_capture import METADATA_KEY, URI, Severity, ToolCall, ToolCallSource, read_tool_calls
from a2a_tool_capture.artifact_calls import ToolCallReading, listed_uris
from a2a_tool_capture.json_limits import READ
from a2a_tool_capture.spec import V1, ExtensionVersion
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_objects, json_values

V2 = ExtensionVersion(2)


def artifact(entries: Any, *, extensions: Any = (URI,), key: str = METADATA_KEY) -> dict[str, Any]:
    listed = list(extensions) if isinstance(extensions, tuple) else extensions
    return {"artifactId": "a1", "parts": [], "metadata": {key: entries}, "extensions": listed}


def read(*entries: Any) -> ToolCallReading:
    return read_tool_calls(artifact(list(entries)))


def codes(reading: ToolCallReading) -> list[str]:
    return [finding.code for finding in reading.findings]


def test_a_well_formed_entry() -> None:
    calls, findings = read({"id": "1", "name": "search", "arguments": {"q": "x"}, "result": "42", "error": None})
    assert calls == [ToolCall("search", {"q": "x"}, "1", "42", None, ToolCallSource.A2A_PROTOCOL)]
    assert findings == []


def test_order_is_kept() -> None:
    assert [call.name for call in read({"name": "b"}, {"name": "a"}, {"name": "b"}).tool_calls] == ["b", "a", "b"]


@pytest.mark.parametrize(
    ("more", "known"),
    [
        ({"arguments_json": '{"id": 9007199254740993}'}, {"arguments": {"id": 2**53 + 1}}),
        ({"arguments_json": '{"id": 1e400, "n": 2.0}'}, {"arguments": {"id": "inf", "n": 2}}),
        ({"arguments_json": "[1]"}, {}),
        ({"arguments_json": "{"}, {}),
        ({"arguments_json": "[" * 100_000}, {}),
        ({"arguments_json": '{"a":' * 500 + "1" + "}" * 500}, {}),
        ({"arguments_json": f'{{"id": {"9" * 5000}}}'}, {}),
        ({"arguments_json": 7}, {}),
        ({"default_arguments": ["id", "other", 1]}, {"default_arguments": ("id",)}),
        ({"default_arguments": "id"}, {}),
        ({"started_at": "2026-01-01T13:00:00+01:00"}, {"started_at": datetime(2026, 1, 1, 12, tzinfo=UTC)}),
        ({"started_at": "2026-01-01T12:00:00"}, {}),
        ({"started_at": "0001-01-01T00:00:00+14:00"}, {}),
        ({"started_at": 1767268800, "ended_at": "soon"}, {}),
        ({"ended_at": "2026-01-01T12:00:00Z"}, {}),
    ],
    ids=lambda value: f"{value!r:.40}",
)
def test_what_an_entry_may_say_besides_is_read_or_ignored(more: dict[str, Any], known: dict[str, Any]) -> None:
    calls, findings = read({"name": "get", "arguments": {"id": "9007199254740993"}, **more})
    assert calls == [replace(ToolCall("get", {"id": "9007199254740993"}, source=ToolCallSource.A2A_PROTOCOL), **known)]
    assert findings == []


# ── entry and name ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(334)
@pytest.mark.parametrize("entry", [None, True, 1, 1.5, "search", ["search"], {}, {"name": None}, {"name": ""}])
@pytest.mark.parametrize("name", [1, {}, ["search"]])
def test_an_entry_without_a_name_is_skipped(entry: Any, name: Any) -> None:
    reading = read(entry, {"name": name}, {"name": "good"})
    assert [call.name for call in reading.tool_calls] == ["good"]
    assert codes(reading) == ["malformed_entry", "malformed_entry"]
    assert reading.findings[0].severity is Severity.WARNING
    assert reading.findings[1].where == "artifact 'a1', tool call 1"


# ── arguments ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(335)
@pytest.mark.parametrize("entry", [{"name": "a"}, {"name": "a", "arguments": None}, {"name": "a", "arguments": {}}])
def test_missing_and_null_arguments_are_none_at_all(entry: Any) -> None:
    reading = read(entry)
    assert reading.tool_calls[0].arguments == {}
    assert reading.findings == []


@pytest.mark.parametrize("given", [{}, {"arguments": None}])
def test_arguments_are_unknown_where_the_agent_says_so(given: Any) -> None:
    reading = read({"name": "a", **given, "arguments_unknown": True})
    assert reading.tool_calls[0].arguments is None
    assert reading.findings == []


@pytest.mark.parametrize("mark", [False, None, "true", 1, {}])
def test_only_true_says_that_arguments_are_unknown(mark: Any) -> None:
    assert read({"name": "a", "arguments_unknown": mark}).tool_calls[0].arguments == {}


@pytest.mark.parametrize("arguments", [{}, {"q": "x"}, '{"q": "x"}'])
def test_arguments_that_are_there_are_known_whatever_else_the_entry_says(arguments: Any) -> None:
    plain = read({"name": "a", "arguments": arguments})
    assert read({"name": "a", "arguments": arguments, "arguments_unknown": True}) == plain
    assert plain.tool_calls[0].arguments is not None


def test_arguments_as_text_of_an_object_are_that_object() -> None:
    reading = read({"name": "a", "arguments": ' {"q": "x", "n": {"m": 1}} '})
    assert reading.tool_calls[0].arguments == {"q": "x", "n": {"m": 1}}
    assert codes(reading) == ["repaired_entry"]
    assert reading.findings[0].severity is Severity.INFO


@pytest.mark.statement(335)
@pytest.mark.parametrize("arguments", ["", "x", "[1]", "1", "null", "{", "[" * 100_000, [], [1], 0, 1.5, True, False])
def test_other_arguments_skip_the_entry(arguments: Any) -> None:
    reading = read({"name": "a", "arguments": arguments}, {"name": "good"})
    assert [call.name for call in reading.tool_calls] == ["good"]
    assert codes(reading) == ["malformed_entry"]


@pytest.mark.parametrize("written", [dict, json.dumps])
def test_whole_numbers_are_integers_though_protobuf_makes_doubles_of_them(written: Any) -> None:
    arguments = {"n": 2.0, "box": [0.0, {"deep": -1.0, "half": 0.5}], "huge": 1e300, "big": 2.0**53, "flag": True}
    (call,) = read({"name": "book", "arguments": written(arguments)}).tool_calls
    shown = '{"n": 2, "box": [0, {"deep": -1, "half": 0.5}], "huge": 1e+300, "big": 9007199254740992.0, "flag": true}'
    assert json.dumps(call.arguments) == shown
    assert arguments["n"].__class__ is float, "what was received is not changed"


# ── id, result, error ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(333)
@pytest.mark.parametrize("entry", [{"name": "a"}, {"name": "a", "id": None}, {"name": "a", "id": ""}])
def test_no_id_is_the_empty_text(entry: Any) -> None:
    reading = read(entry)
    assert reading.tool_calls[0].id == ""
    assert reading.findings == []


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (7, "7"),
        (7.0, "7"),
        (2**53 + 1, f"{2**53 + 1}"),
        (True, "true"),
        ({"n": 1}, '{"n": 1}'),
        (["ü"], '["ü"]'),
        (0, "0"),
    ],
)
def test_another_id_is_its_json_text(raw: Any, text: str) -> None:
    reading = read({"name": "a", "id": raw})
    assert reading.tool_calls[0].id == text
    assert codes(reading) == ["repaired_entry"]


@pytest.mark.statement(336, 337)
@pytest.mark.parametrize("field", ["result", "error"])
@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (None, None),
        ("", ""),
        ("out of stock", "out of stock"),
        ({"temp_c": 21.0, "name": "ü"}, '{"temp_c": 21.0, "name": "ü"}'),
        ([], "[]"),
        (0, "0"),
        (False, "false"),
    ],
)
def test_results_and_errors_are_text_or_their_json(field: str, raw: Any, text: str | None) -> None:
    reading = read({"name": "a", field: raw})
    assert getattr(reading.tool_calls[0], field) == text
    assert reading.findings == []


def test_an_absent_result_is_absent() -> None:
    assert read({"name": "a"}).tool_calls[0].result is None


@pytest.mark.statement(338)
def test_source_and_unknown_fields_are_ignored() -> None:
    reading = read({"name": "a", "source": "otel_trace", "added_later": {"x": 1}})
    assert reading.tool_calls == [ToolCall("a", source=ToolCallSource.A2A_PROTOCOL)]
    assert reading.findings == []


@pytest.mark.parametrize("field", ["arguments", "id", "result", "error"])
def test_what_nests_too_deeply_is_skipped(field: str) -> None:
    def entry(depth: int) -> dict[str, Any]:
        value: Any = {}
        for _ in range(depth - 1):
            value = {"a": value}
        return {"name": "a", field: value}

    assert len(read(entry(READ)).tool_calls) == 1
    deep = read(entry(READ + 1))
    assert deep.tool_calls == []
    assert codes(deep) == ["malformed_entry"]


# ── the list, and the URI ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [None, {}, {"name": "a"}, "[]", 1, True])
def test_a_value_that_is_no_list_is_ignored(value: Any) -> None:
    reading = read_tool_calls(artifact(value))
    assert reading.tool_calls == []
    assert codes(reading) == ["calls_not_a_list"]


@pytest.mark.parametrize(
    "without", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {}}, {"metadata": {"x": 1}}]
)
def test_no_key_is_no_calls_and_no_finding(without: dict[str, Any]) -> None:
    assert read_tool_calls({"artifactId": "a1", **without}) == ([], [])


@pytest.mark.statement(344)
@pytest.mark.parametrize("extensions", [None, (), ("https://example.com/other/v1",), URI, {URI: True}, ([URI],)])
def test_calls_of_an_artifact_that_does_not_list_the_uri_are_ignored(extensions: Any) -> None:
    reading = read_tool_calls(artifact([{"name": "a"}, {"name": "b"}], extensions=extensions))
    assert reading.tool_calls == []
    assert codes(reading) == ["uri_not_listed"]
    assert reading.findings[0].message.startswith("2 tool call(s) ignored")
    assert read_tool_calls(artifact([], extensions=extensions)) == ([], []), "nothing is ignored"


def test_once_listed_is_listed() -> None:
    reading = read_tool_calls(artifact([{"name": "a"}], extensions=()), already_listed={URI})
    assert [call.name for call in reading.tool_calls] == ["a"]
    assert reading.findings == []


def test_the_requirement_can_be_lifted() -> None:
    reading = read_tool_calls(artifact([{"name": "a"}], extensions=()), require_artifact_uri=False)
    assert [call.name for call in reading.tool_calls] == ["a"]


def test_the_uri_may_be_one_of_several() -> None:
    extensions = ("https://example.com/other/v1", 1, None, URI)
    assert listed_uris(artifact([], extensions=extensions)) == {"https://example.com/other/v1", URI}
    assert len(read_tool_calls(artifact([{"name": "a"}], extensions=extensions)).tool_calls) == 1


@pytest.mark.statement(325, 326)
def test_messages_and_data_parts_are_never_read() -> None:
    part = {"data": {METADATA_KEY: [{"name": "a"}]}, "metadata": {METADATA_KEY: [{"name": "b"}]}}
    assert read_tool_calls({"artifactId": "a1", "extensions": [URI], "parts": [part]}) == ([], [])


@pytest.mark.parametrize("artifact_id", [None, 7, {}, [[]], "x" * 10])
def test_an_odd_artifact_id_is_no_obstacle(artifact_id: Any) -> None:
    content = artifact([None, {"name": "a"}])
    content["artifactId"] = artifact_id
    assert [call.name for call in read_tool_calls(content).tool_calls] == ["a"]


def test_a_deep_artifact_id_is_no_obstacle() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    content = {**artifact([None]), "artifactId": deep}
    assert codes(read_tool_calls(content)) == ["malformed_entry"]


# ── versions ────────────────────────────────────────────────────────────────────────────────────────────────


def migrating(v2: Any, v1: Any, extensions: tuple[Any, ...] = (V1.uri, V2.uri)) -> dict[str, Any]:
    """An artifact of an agent that emits two versions."""
    return {
        "artifactId": "a1",
        "metadata": {V1.metadata_key: v1, V2.metadata_key: v2},
        "extensions": list(extensions),
    }


def names(content: dict[str, Any]) -> list[str]:
    return [call.name for call in read_tool_calls(content, versions=(V2, V1)).tool_calls]


def test_the_highest_version_is_the_only_one_counted() -> None:
    assert names(migrating([{"name": "new"}], [{"name": "old"}])) == ["new"]


def test_versions_are_chosen_artifact_by_artifact() -> None:
    assert names(artifact([{"name": "old"}])) == ["old"]
    assert names(artifact([{"name": "new"}], key=V2.metadata_key, extensions=(V2.uri,))) == ["new"]


@pytest.mark.parametrize(
    "content",
    [
        migrating("junk", [{"name": "old"}]),
        migrating([{"name": "new"}], [{"name": "old"}], extensions=(V1.uri,)),
    ],
)
def test_a_version_that_cannot_be_read_leaves_the_next_one(content: dict[str, Any]) -> None:
    assert names(content) == ["old"]


@pytest.mark.statement(343)
def test_a_reader_that_knows_one_version_ignores_the_other() -> None:
    content = migrating([{"name": "new"}], [{"name": "old"}])
    assert [call.name for call in read_tool_calls(content).tool_calls] == ["old"]


# ── any input ───────────────────────────────────────────────────────────────────────────────────────────────

entries = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.text(max_size=2) | json_values,
            "name": st.sampled_from(["a", "b"]) | json_values,
            "arguments": json_objects | json_objects.map(json.dumps) | json_values,
            "result": json_values,
            "error": json_values,
        },
    )
    | json_values,
    max_size=6,
)


@given(json_objects)
def test_any_artifact_can_be_read(content: dict[str, Any]) -> None:
    calls, findings = read_tool_calls(content)
    assert all(isinstance(call, ToolCall) for call in calls)
    assert all(finding.code and finding.message for finding in findings)


@given(entries)
def test_every_entry_is_a_call_or_a_finding(content: list[Any]) -> None:
    before = json.dumps(content)
    calls, findings = read_tool_calls(artifact(content))
    skipped = [finding for finding in findings if finding.code == "malformed_entry"]
    assert len(calls) + len(skipped) == len(content)
    assert {finding.code for finding in findings} <= {"malformed_entry", "repaired_entry"}
    assert json.dumps(content) == before


@given(entries)
def test_what_is_read_is_strict(content: list[Any]) -> None:
    for call in read_tool_calls(artifact(content)).tool_calls:
        assert call.name
        assert isinstance(call.arguments, dict)
        assert isinstance(call.id, str)
        assert call.result is None or isinstance(call.result, str)
        assert call.error is None or isinstance(call.error, str)
        assert call.source is ToolCallSource.A2A_PROTOCOL
        assert ToolCall.from_dict(call.to_dict()) == call


@given(entries)
def test_reading_what_was_read_again_changes_nothing(content: list[Any]) -> None:
    first = read_tool_calls(artifact(content)).tool_calls
    again = read_tool_calls(artifact([call.to_dict() for call in first]))
    assert again == (first, [])
