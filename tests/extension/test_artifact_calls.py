"""Reading the calls of an artifact: the table of rules, row by row."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from a2a_tool_capture import METADATA_KEY, URI, Severity, ToolCall, ToolCallSource, read_tool_calls
from a2a_tool_capture.artifact_calls import SeenCalls, ToolCallReading, beside_calls, listed_uris
from a2a_tool_capture.json_limits import READ
from a2a_tool_capture.spec import V1, ExtensionVersion
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_objects, json_values

V2 = ExtensionVersion(2)


def artifact(entries: Any, *, extensions: Any = (URI,), key: str = METADATA_KEY) -> dict[str, Any]:
    listed = list(extensions) if isinstance(extensions, tuple) else extensions
    return {"artifactId": "a1", "parts": [], "metadata": {key: entries}, "extensions": listed}


def read(*entries: Any, now: float | None = None) -> ToolCallReading:
    return read_tool_calls(artifact(list(entries)), seen=SeenCalls(now))


def codes(reading: ToolCallReading) -> list[str]:
    return [finding.code for finding in reading.findings]


SKIPPED: dict[str, Any] = {}
"""In place of what is read: nothing is."""


@pytest.mark.statement(333, 334, 335, 336, 337, 338)
@pytest.mark.parametrize(
    ("entries", "known", "problems"),
    [
        (
            [{"id": "1", "name": "search", "arguments": {"q": "x"}, "result": "42", "error": None}],
            {"id": "1", "name": "search", "arguments": {"q": "x"}, "result": "42", "error": None},
            [],
        ),
        ([{"name": "a", "source": "otel_trace", "added_later": {"x": 1}}], {"source": "a2a_protocol"}, []),
        ([None, True, 1, 1.5, "search", ["search"], {}], SKIPPED, ["malformed_entry"] * 7),
        ([{"name": name} for name in (None, "", 1, {}, ["search"])], SKIPPED, ["malformed_entry"] * 5),
        (
            [{"name": "a"}, {"name": "a", "id": None}, {"name": "a", "id": "", "arguments": None}],
            {"id": "", "arguments": {}, "result": None, "error": None},
            [],
        ),
        (
            [{"name": "a", "arguments_unknown": True}, {"name": "a", "arguments": None, "arguments_unknown": True}],
            {"arguments": None},
            [],
        ),
        ([{"name": "a", "arguments_unknown": mark} for mark in (False, None, "true", 1, {})], {"arguments": {}}, []),
        ([{"name": "a", "arguments": {"q": 1}, "arguments_unknown": True}], {"arguments": {"q": 1}}, []),
        ([{"name": "a", "arguments": {}, "arguments_unknown": True}], {"arguments": {}}, []),
        (
            [{"name": "a", "arguments": ' {"q": "x", "n": {"m": 1}} '}],
            {"arguments": {"q": "x", "n": {"m": 1}}},
            ["repaired_entry"],
        ),
        (
            [{"name": "a", "arguments": other} for other in ("", "x", "[1]", "1", "null", "{", "[" * 100_000)],
            SKIPPED,
            ["malformed_entry"] * 7,
        ),
        (
            [{"name": "a", "arguments": other} for other in ([], [1], 0, 1.5, True, False)],
            SKIPPED,
            ["malformed_entry"] * 6,
        ),
        ([{"name": "a", "id": 7}, {"name": "a", "id": 7.0}], {"id": "7"}, ["repaired_entry"] * 2),
        ([{"name": "a", "id": 2**53 + 1}], {"id": f"{2**53 + 1}"}, ["repaired_entry"]),
        ([{"name": "a", "id": True}], {"id": "true"}, ["repaired_entry"]),
        ([{"name": "a", "id": ["ü"]}], {"id": '["ü"]'}, ["repaired_entry"]),
        ([{"name": "a", "id": 0}], {"id": "0"}, ["repaired_entry"]),
        ([{"name": "a", "result": "", "error": ""}], {"result": "", "error": ""}, []),
        (
            [{"name": "a", "result": {"c": 21.0, "name": "ü"}, "error": []}],
            {"result": '{"c": 21.0, "name": "ü"}', "error": "[]"},
            [],
        ),
        ([{"name": "a", "result": 0, "error": False}], {"result": "0", "error": "false"}, []),
    ],
)
def test_an_entry_is_read_or_skipped(entries: list[Any], known: dict[str, Any], problems: list[str]) -> None:
    """Each of `entries` says the same. One after them is read in any case."""
    reading = read(*entries, {"name": "good"}, now=7.0)
    *calls, last = reading.tool_calls
    assert [{name: getattr(call, name) for name in known} for call in calls] == [known] * (len(entries) if known else 0)
    ended = None if known.get("result") is None and known.get("error") is None else 7.0
    assert {(call.first_seen_at, call.result_seen_at) for call in calls} <= {(7.0, ended)}
    assert last.name == "good"
    assert codes(reading) == problems
    severity = Severity.WARNING if known is SKIPPED else Severity.INFO
    assert all(finding.severity is severity for finding in reading.findings)
    assert all(finding.where == f"artifact 'a1', tool call {n}" for n, finding in enumerate(reading.findings))


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
        ({"started_at": "1970-01-01T00:00:00Z"}, {"started_at": datetime(1970, 1, 1, tzinfo=UTC)}),
        ({"started_at": "1969-12-31T23:59:59Z"}, {}),
        ({"started_at": 1767268800, "ended_at": "soon"}, {}),
        ({"ended_at": "2026-01-01T12:00:00Z"}, {}),
    ],
    ids=lambda value: f"{value!r:.40}",
)
def test_what_an_entry_may_say_besides_is_read_or_ignored(more: dict[str, Any], known: dict[str, Any]) -> None:
    calls, findings = read({"name": "get", "arguments": {"id": "9007199254740993"}, **more})
    assert calls == [replace(ToolCall("get", {"id": "9007199254740993"}, source=ToolCallSource.A2A_PROTOCOL), **known)]
    assert findings == []


@pytest.mark.parametrize("written", [dict, json.dumps])
def test_whole_numbers_are_integers_though_protobuf_makes_doubles_of_them(written: Any) -> None:
    arguments = {"n": 2.0, "box": [0.0, {"deep": -1.0, "half": 0.5}], "huge": 1e300, "big": 2.0**53, "flag": True}
    (call,) = read({"name": "book", "arguments": written(arguments)}).tool_calls
    shown = '{"n": 2, "box": [0, {"deep": -1, "half": 0.5}], "huge": 1e+300, "big": 9007199254740992.0, "flag": true}'
    assert json.dumps(call.arguments) == shown
    assert arguments["n"].__class__ is float, "what was received is not changed"


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


def test_the_uri_may_be_one_of_several() -> None:
    extensions = ("https://example.com/other/v1", 1, None, URI)
    assert listed_uris(artifact([], extensions=extensions)) == {"https://example.com/other/v1", URI}
    assert len(read_tool_calls(artifact([{"name": "a"}], extensions=extensions)).tool_calls) == 1


REPORT = {METADATA_KEY: [{"name": "a"}]}


@pytest.mark.parametrize(
    ("event", "places"),
    [
        ({"artifactUpdate": {"artifact": artifact([{"name": "a"}])}}, []),
        (
            {"artifactUpdate": {"artifact": {"metadata": {"deeper": REPORT}}}},
            ["artifactUpdate.artifact.metadata.deeper"],
        ),
        ({"task": {"artifacts": [artifact([{"name": "a"}])], "metadata": {"kagent_usage_total": {}}}}, []),
        ({"task": {"history": [{"role": "ROLE_USER", "metadata": REPORT}]}}, []),
        ({"task": {"history": [{"role": "ROLE_AGENT", "metadata": REPORT}]}}, ["task.history[0]"]),
        ({"message": {"role": "ROLE_AGENT", "metadata": REPORT}}, ["message"]),
        ({"statusUpdate": {"metadata": {"tool_calls": [1], "adk_usage_metadata": {"totalTokenCount": 1}}}}, []),
    ],
)
def test_calls_outside_of_the_metadata_of_an_artifact_are_found_with_their_place(event: Any, places: list[str]) -> None:
    findings, states_tokens = beside_calls(event)
    assert [finding.where for finding in findings] == places
    assert states_tokens is ("totalTokenCount" in str(event))


# ── versions ────────────────────────────────────────────────────────────────────────────────────────────────


def migrating(v2: Any, v1: Any, extensions: tuple[Any, ...] = (V1.uri, V2.uri)) -> dict[str, Any]:
    """An artifact of an agent that emits two versions."""
    return {
        "artifactId": "a1",
        "metadata": {V1.metadata_key: v1, V2.metadata_key: v2},
        "extensions": list(extensions),
    }


@pytest.mark.statement(343, 345)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (migrating([{"name": "new"}], [{"name": "old"}]), ["new"]),
        (migrating("junk", [{"name": "old"}]), ["old"]),
        (migrating([{"name": "new"}], [{"name": "old"}], extensions=(V1.uri,)), ["old"]),
        (artifact([{"name": "old"}]), ["old"]),
        (artifact([{"name": "new"}], key=V2.metadata_key, extensions=(V2.uri,)), ["new"]),
    ],
)
def test_the_highest_version_of_an_artifact_that_can_be_read_is_the_only_one_counted(
    content: dict[str, Any], expected: list[str]
) -> None:
    assert [call.name for call in read_tool_calls(content, versions=(V2, V1)).tool_calls] == expected


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


@given(entries)
def test_every_entry_is_a_call_or_a_finding(content: list[Any]) -> None:
    before = json.dumps(content)
    calls, findings = read_tool_calls(artifact(content))
    skipped = [finding for finding in findings if finding.code == "malformed_entry"]
    assert len(calls) + len(skipped) == len(content)
    assert {finding.code for finding in findings} <= {"malformed_entry", "repaired_entry"}
    assert json.dumps(content) == before
    for call in calls:
        assert call.name
        assert call.source is ToolCallSource.A2A_PROTOCOL
        assert [type(given) for given in (call.id, call.arguments)] == [str, dict]
        assert {type(given) for given in (call.result, call.error)} <= {str, type(None)}
