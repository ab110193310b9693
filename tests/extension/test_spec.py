"""The extension's names, its declaration, and its JSON Schema."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import a2a_tool_capture
import pytest
from a2a_tool_capture import METADATA_KEY, URI, agent_extension
from a2a_tool_capture.spec import requested_uris, strip_header, strip_headers
from jsonschema import Draft202012Validator

OTHER = "https://example.com/other-extension/v1"
LATER = URI.replace("/v1", "/v2")


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    text = files(a2a_tool_capture).joinpath("schema", "tool-call-capture-v1.schema.json").read_text("utf-8")
    content = json.loads(text)
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)


@pytest.mark.statement(322)
def test_names_of_version_1_are_fixed() -> None:
    assert URI == "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
    assert METADATA_KEY == "https://arksim.arklex.ai/a2a/tool-call-capture/v1/tool_calls"


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


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"name": "search"}],
        [{"id": "1", "name": "search", "arguments": {"q": "x", "n": 1.0, "deep": {"list": [1, None]}}, "result": "42"}],
        [{"id": "", "name": "pay", "arguments": {}, "result": None, "error": "declined", "source": "whatever"}],
        [{"name": "search", "added_in_a_later_version": True}],
    ],
)
def test_the_schema_accepts_what_is_documented(schema: Draft202012Validator, entries: Any) -> None:
    schema.validate(entries)


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
