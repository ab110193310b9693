"""JSON objects cut out of a byte stream: whatever the chunks, every byte comes out again."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from a2a_eval_proxy.protocol.json_stream import JsonPart, JsonSplitter, ObjectTooLargeError
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 1_000_000
OBJECTS = [b"{}", b'{"a":"}{","b":[{"c":"\\"}"}]}', b'{"x":"\\\\"}', '{"ä":"\u2028{"}'.encode()]
BETWEEN = [b"", b" ", b"\r\n", b"\x1e", b"[", b",", b"]", b'"a {"', b"\xef\xbb\xbf", b"null"]


def split(chunks: list[bytes]) -> tuple[bytes, list[bytes], bytes]:
    """All bytes but those of the unfinished object, the objects, and the rest."""
    splitter = JsonSplitter(LIMIT)
    parts = [part for chunk in chunks for part in splitter.feed(chunk)]
    assert splitter.size == len(splitter.rest)
    return b"".join(part.raw for part in parts), [part.raw for part in parts if part.is_object], splitter.rest


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(borders)]


places = st.lists(st.integers(0, 10_000), max_size=12)
json_streams = st.lists(st.tuples(st.sampled_from(OBJECTS), st.sampled_from(BETWEEN)), max_size=6)


@given(json_streams, st.sampled_from([b"", b" \n", b"[", b"\x1e"]), places)
def test_objects_are_found_however_they_are_cut(pairs: list[tuple[bytes, bytes]], start: bytes, at: list[int]) -> None:
    stream = start + b"".join(one + between for one, between in pairs)
    for chunks in (cut(stream, at), [stream[i : i + 1] for i in range(len(stream))]):
        passed, objects, rest = split(chunks)
        assert (passed + rest, objects) == (stream, [one for one, _ in pairs])
        assert rest in (b"", b"[")  # alone, it may be the beginning of UTF-16


@given(st.binary(max_size=80) | st.text('{}[]"\\a \n', max_size=80).map(str.encode), places)
def test_every_byte_comes_out_again(stream: bytes, at: list[int]) -> None:
    passed, _, rest = split(cut(stream, at))
    assert passed + rest == stream


@given(st.recursive(st.none() | st.text() | st.integers(), st.lists, max_leaves=5), places)
def test_a_document_is_one_object(value: object, at: list[int]) -> None:
    document = json.dumps({"value": value}).encode()
    assert split(cut(document, at)) == (document, [document], b"")


@pytest.mark.parametrize("text", [b"plain {", b"<html>{", b'"{', b"data: {}\n\n", b"\x89PNG{"])
def test_what_is_no_json_has_no_objects(text: bytes) -> None:
    assert split([text, b"}{}"]) == (text + b"}{}", [], b"")


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_json_of_wide_characters_is_kept_to_its_end(codec: str) -> None:
    document = '{"a": {}}'.encode(codec)
    assert split([document[:9], document[9:]]) == (b"", [], document)
    assert split([document[at : at + 1] for at in range(len(document))]) == (b"", [], document)


def test_blanks_and_whole_objects_do_not_wait() -> None:
    splitter = JsonSplitter(LIMIT)
    assert splitter.feed(b" ") == [JsonPart(b" ", is_object=False)]
    assert splitter.feed(b'\n{"a":') == [JsonPart(b"\n", is_object=False)]
    assert splitter.feed(b'1}\n{"b') == [JsonPart(b'{"a":1}', is_object=True), JsonPart(b"\n", is_object=False)]
    assert splitter.rest == b'{"b'


def test_an_unfinished_object_beyond_the_limit() -> None:
    splitter = JsonSplitter(10)
    assert splitter.feed(b'{"a":"7890') == []
    with pytest.raises(ObjectTooLargeError, match="10 bytes"):
        splitter.feed(b"1")
    assert splitter.rest == b'{"a":"78901'
