"""The extension's names, its declaration, and its JSON Schema."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from typing import Any

import a2a_tool_capture
import pytest
from a2a_tool_capture import METADATA_KEY, URI, agent_extension
from a2a_tool_capture.spec import KNOWN_VERSIONS, V1, ExtensionVersion, requested_uris, strip_header, strip_headers
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

OTHER = "https://example.com/other-extension/v1"
LATER = URI.replace("/v1", "/v2")


@pytest.fixture(scope="module")
def schema() -> Draft202012Validator:
    text = files(a2a_tool_capture).joinpath("schema", "tool-call-capture-v1.schema.json").read_text("utf-8")
    content = json.loads(text)
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content)


def test_everything_can_be_imported_without_grpc() -> None:
    code = "import sys; sys.modules['grpc'] = None; from a2a_tool_capture import *; print(CaptureClient.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("CaptureClient", 0), done.stderr


@pytest.mark.statement(322)
def test_names_of_version_1_are_fixed() -> None:
    assert URI == "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
    assert METADATA_KEY == "https://arksim.arklex.ai/a2a/tool-call-capture/v1/tool_calls"


@pytest.mark.statement(343)
def test_a_version_derives_its_names() -> None:
    assert (V1.uri, V1.metadata_key) == (URI, METADATA_KEY)
    assert ExtensionVersion(2).metadata_key == "https://arksim.arklex.ai/a2a/tool-call-capture/v2/tool_calls"


def test_known_versions_are_listed_highest_first() -> None:
    numbers = [version.number for version in KNOWN_VERSIONS]
    assert numbers == sorted(numbers, reverse=True)


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


@given(st.lists(st.text(), max_size=4))
def test_any_header_gives_distinct_non_empty_uris(values: list[str]) -> None:
    uris = requested_uris(values)
    assert len(set(uris)) == len(uris)
    assert all(uri and uri == uri.strip() and "," not in uri for uri in uris)


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
