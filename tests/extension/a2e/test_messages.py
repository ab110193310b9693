"""A2E messages: to lines and back, in every spelling; nothing that comes raises anything but ProtocolError."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest
from a2a_tool_capture.a2e import (
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolParameter,
    transport,
)
from a2a_tool_capture.a2e.messages import (
    ErrorMessage,
    Message,
    ProtocolError,
    ToolCallRequest,
    ToolCallResponse,
    ToolListRequest,
    ToolListResponse,
    decode,
    encode,
    object_of,
    plain,
)
from a2a_tool_capture.a2e.transport import read_lines
from a2a_tool_capture.json_limits import READ
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values


def line(kind: str, /, **data: Any) -> bytes:
    return json.dumps({"type": kind, "id": "1", **data}).encode()


PATH = {"name": "path", "type": "string", "description": "Where", "required": True, "enum": ["/a", "/b"]}
DEFINITION = {
    "name": "read_file",
    "description": "Reads a file",
    "input_parameters": [
        {"name": "file", "type": "object", "description": "Which", "required": False, "properties": [PATH]}
    ],
    "output_parameters": [{"name": "content", "type": "string", "description": "", "required": True}],
    "streaming": True,
    "idempotent": True,
    "tags": ["fs"],
    "version": "2.0.0",
    "toolkit": "files",
    "defer_loading": True,
}
EVENT = {"kind": "progress", "data": {"pct": 50, "message": "half"}, "req_id": "7", "seq": 1}
RESULT = {
    "success": False,
    "tool_name": "read_file",
    "data": {"content": "of the file"},
    "summary": "read\none file: ü",
    "truncated": True,
    "exit_code": 3,
    "error": "disk full",
    "error_code": "tool_error",
    "duration_ms": 12,
    "events": [{"type": "tool/event", "id": "9", "ts": 1.5, "version": "1.0", **EVENT}],
}


@pytest.mark.parametrize(
    ("kind", "model", "fields"),
    [
        pytest.param(
            "tool/list/req",
            ToolListRequest,
            {"filter_kind": "files", "filter_tags": ["fs"], "query": "read", "include_deferred": True},
            marks=pytest.mark.statement(261),
        ),
        pytest.param(
            "tool/list/resp",
            ToolListResponse,
            {"req_id": "7", "tools": [DEFINITION]},
            marks=pytest.mark.statement(262, 266, 267, 268, 269, 270, 271),
        ),
        pytest.param(
            "tool/call/req",
            ToolCallRequest,
            {
                "tool_name": "read_file",
                "arguments": {"path": "/a"},
                "session_id": "s-1",
                "correlation_id": "turn-1",
                "streaming": True,
                "timeout": 5.0,
            },
            marks=pytest.mark.statement(263, 276, 277, 278, 279, 280),
        ),
        pytest.param(
            "tool/call/resp",
            ToolCallResponse,
            {"req_id": "7", "data": RESULT},
            marks=pytest.mark.statement(264, 281, 282, 283, 284, 285, 286),
        ),
        pytest.param("tool/event", ToolEvent, EVENT, marks=pytest.mark.statement(265)),
        ("error", ErrorMessage, {"code": "tool_error", "message": "full", "req_id": "7", "retryable": True}),
    ],
)
def test_each_message_has_the_fields_of_the_documentation(
    kind: str, model: type[Message], fields: dict[str, Any]
) -> None:
    """What is null or not known is as if it were not there."""
    data = {"type": kind, "id": "1", "ts": 1.5, "version": "1.0", **fields}
    message = decode(json.dumps(data | {"toolkit": None, "new_in_2027": [1]}).encode())
    assert type(message) is model
    assert plain(message) == data
    line = encode(message)
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_what_a_definition_does_not_say_is_not_so() -> None:
    definition = object_of(ToolDefinition, {"name": "read_file"})
    said = definition.streaming, definition.idempotent, definition.defer_loading, definition.toolkit
    assert said == (False, False, False, None)


@pytest.mark.statement(271)
def test_properties_may_be_a_list_or_a_map() -> None:
    inner = {"name": "city", "type": "string", "description": "where", "required": True}
    as_list = {"name": "to", "type": "object", "properties": [inner]}
    as_map = {"name": "to", "type": "object", "properties": {"city": {**inner, "name": "city"}}}
    without_names = {
        "name": "to",
        "type": "object",
        "properties": {"city": {k: v for k, v in inner.items() if k != "name"}},
    }
    read = [object_of(ToolParameter, data) for data in (as_list, as_map, without_names)]
    assert read[0] == read[1] == read[2]
    assert read[0].properties == (ToolParameter(name="city", description="where", required=True),)


@pytest.mark.parametrize("version", [{"version": "1.7"}, {"a2e": "1.0"}, {}])
@pytest.mark.parametrize("spelling", ["TOOL_DENIED", "tool_denied", "Tool_Denied"])
def test_error_codes_in_any_case_and_every_minor_version_of_1(spelling: str, version: dict[str, str]) -> None:
    message = decode(line("tool/call/resp", req_id="2", data={"success": False, "error_code": spelling}, **version))
    assert isinstance(message, ToolCallResponse)
    assert message.data.error_code is ToolErrorCode.TOOL_DENIED


@pytest.mark.parametrize(
    ("bad", "code", "says"),
    [
        (b"", "parse_error", "not JSON"),
        (b"\xff\xfe", "parse_error", "not JSON"),
        (b"{", "parse_error", "not JSON"),
        (b'{"type": NaN}', "parse_error", "NaN is not a JSON number"),
        (b"[" * 100_000, "parse_error", "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "parse_error", "not JSON"),
        (b"[]", "invalid_message", "unknown type None"),
        (line("tool/gossip"), "invalid_message", "unknown type 'tool/gossip'"),
        (b'{"type": ["error"], "id": "1"}', "invalid_message", "unknown type"),
        (line("tool/list/req", version="2.0"), "version_mismatch", "version '2.0'"),
        (line("tool/list/req", version=1), "version_mismatch", "version 1"),
        (line("tool/call/req"), "schema_violation", "ToolCallRequest.tool_name is missing"),
        (line("tool/call/req", tool_name=""), "schema_violation", "expected a string that is not empty"),
        (
            line("tool/call/req", tool_name="a", arguments=[]),
            "schema_violation",
            "arguments: expected an object, got a list",
        ),
        (line("tool/call/req", tool_name="a", timeout="30"), "schema_violation", "timeout: expected a finite number"),
        (
            line("tool/call/req", tool_name="a", timeout=10**400),
            "schema_violation",
            "timeout: expected a finite number",
        ),
        (line("tool/call/req", tool_name="a", streaming=1), "schema_violation", "streaming: expected true or false"),
        (line("tool/call/resp", req_id="2", data={}), "schema_violation", "data.success is missing"),
        (line("tool/list/resp", req_id="2", tools=[{}]), "schema_violation", r"tools\[0\].name is missing"),
        (line("tool/event", kind="log", seq=1.5), "schema_violation", "seq: expected an integer"),
    ],
)
def test_what_cannot_be_read_is_named(bad: bytes, code: str, says: str) -> None:
    with pytest.raises(ProtocolError, match=says) as raised:
        decode(bad)
    assert raised.value.code == code


def test_parameters_do_not_nest_without_end() -> None:
    nested: dict[str, Any] = {"name": "p"}
    for _ in range(READ + 1):
        nested = {"name": "p", "properties": [nested]}
    object_of(ToolParameter, nested["properties"][0])
    with pytest.raises(ProtocolError, match="parameters nest deeper than"):
        object_of(ToolParameter, {"name": "p", "properties": [nested]})


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_what_is_no_json_is_not_sent(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|not serializable|Object of type"):
        encode(ToolCallRequest(tool_name="a", arguments={"x": value}))


KEYS = ["id", "ts", "version", "req_id", "tool_name", "arguments", "data", "tools", "kind", "code", "success", "events"]
TYPES = ["tool/list/req", "tool/list/resp", "tool/call/req", "tool/call/resp", "tool/event", "error"]


@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=6))
def test_junk_raises_nothing_else(kind: str, data: dict[str, Any]) -> None:
    try:
        decode(json.dumps({**data, "type": kind}).encode())
    except ProtocolError:
        pass


# ── lines ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=12).filter(lambda text: b"\n" not in text), max_size=6), st.data())
def test_lines_are_the_same_however_they_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(text + b"\n" for text in lines) + b"rest"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    wanted = [text if len(text) <= 8 else None for text in lines if text.strip() or len(text) > 8]
    assert asyncio.run(lines_in(pieces, 8)) == wanted


def test_a_line_without_end_takes_no_memory() -> None:
    pieces = [b"x" * 50_000] * 1_000
    tracemalloc.start()
    try:
        assert asyncio.run(lines_in([*pieces, b"\nnext\n"], 10)) == [None, b"next"]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


class Pieces(asyncio.StreamReader):
    """A stream whose reads return these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self.pieces = iter([piece for piece in pieces if piece])

    async def read(self, n: int = -1) -> bytes:
        return next(self.pieces, b"")


async def lines_in(pieces: list[bytes], max_bytes: int) -> list[bytes | None]:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(transport, "MAX_LINE_BYTES", max_bytes)
        return [line async for line in read_lines(Pieces(pieces))]
