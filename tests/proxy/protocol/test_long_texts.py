"""Long texts are taken out of JSON in parts: what is read and sent is what the whole document would give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest
from a2a_eval_proxy.protocol import extension_filter
from a2a_eval_proxy.protocol.long_texts import LongTexts
from a2a_tool_capture.merge import MAX_TEXT_CHARS
from a2a_tool_capture.spec import METADATA_KEY, URI
from hypothesis import example, given, settings
from hypothesis import strategies as st

PART = 4 * 1024
LONG = 20_000
"""Characters that are taken out."""
PIECES = [
    "word ",
    "\\n",
    '\\"',
    "\\\\",
    "\\u00e9",
    "\\ud83d\\ude00",
    "\\\\u12",
    "é",
    "日",
    "😀",
    "x" * 13,
    "\\\\\\u0041",
    "a\\/",
]
"""Of which JSON strings are made."""
BROKEN = [b"\\ud83d", b"\xff", b"\\x", b"\n", b"\\u12", b"\xc3", b'"', b"\\"]
"""Which no reader takes, or not the fast one."""


def artifact(text: str, name: str = "text") -> str:
    metadata = f'{{"{METADATA_KEY}": [{{"name": "f", "arguments": {{"text": "\\u00e9"}}}}], "other": 1}}'
    return f'{{"artifactId": "a", "parts": [{{"{name}": "{text}"}}], "extensions": ["{URI}"], "metadata": {metadata}}}'


def task(*texts: str) -> bytes:
    artifacts = ", ".join(map(artifact, texts))
    return f'{{"jsonrpc": "2.0", "result": {{"task": {{"id": "t", "artifacts": [{artifacts}]}}}}}}'.encode()


def read(document: bytes, places: list[int]) -> LongTexts:
    borders = {0, len(document), *range(0, len(document), PART), *(place % (len(document) + 1) for place in places)}
    texts = LongTexts(b"token")
    for start, end in pairwise(sorted(borders)):
        texts.feed(document[start:end])
    return texts


def cut(value: Any) -> Any:
    """Decoded JSON with as much of its texts as capture keeps."""
    if isinstance(value, dict):
        return {key: cut(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return list(map(cut, value))
    return value[: MAX_TEXT_CHARS + 1] if isinstance(value, str) else value


def check(document: bytes, places: list[int], *, is_short: bool | None = None) -> None:
    found = read(document, places).finish()
    assert b"".join(read(document, places).rest()) == document
    if is_short is not None:
        assert found is not None or not is_short
    if found is None:
        return
    texts = read(document, places)
    found = texts.finish()
    assert found is not None
    assert len(found.data) < len(document)
    assert found.payload == cut(orjson.loads(document))
    shown = extension_filter.strip(found.data, None, found.payload)
    size = texts.size_of(shown)
    whole = b"".join(texts.pieces(shown))
    assert len(whole) == size
    assert whole == extension_filter.strip(document, None)


places = st.lists(st.integers(0, 10**7), max_size=8)
texts = st.tuples(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.integers(1, 3 * LONG))


def made(pieces: list[str], size: int) -> str:
    one = "".join(pieces)
    return one * (size // len(one) + 1)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=1, max_size=3), places)
@example([(["\\ud83d\\ude00"], LONG)], [PART - 40 + n for n in range(14)])
@example([(["\\\\"], LONG)], [PART - 1])
@example([(["日"], LONG)], [PART + 1, PART + 2])
def test_the_document_is_the_same_however_it_is_cut(found: list[tuple[list[str], int]], at: list[int]) -> None:
    every = [made(*one) for one in found]
    check(task(*every), at, is_short=any(len(text.encode()) > LONG for text in every))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BROKEN), st.integers(0, LONG - 2), places)
def test_what_cannot_be_read_in_parts_is_read_as_a_whole(broken: bytes, where: int, at: list[int]) -> None:
    document = task("x" * LONG)
    place = document.index(b"xx") + where
    document = document[:place] + broken + document[place:]
    assert b"".join(read(document, at).rest()) == document
    assert read(document, at).finish() is None


@settings(max_examples=60, deadline=None)
@given(st.text('{}[]":,\\utex0159 é\n', max_size=200), st.integers(0, 40), places)
def test_every_byte_comes_out_again(text: str, times: int, at: list[int]) -> None:
    document = text.encode() * times
    assert b"".join(read(document, at).rest()) == document


def strings() -> Iterator[tuple[bytes, bool]]:
    """Documents with a long string in some place, and whether capture reads no more than its beginning."""
    long = "x" * LONG
    yield task(long), True
    yield task("short"), False
    yield task("y" * (MAX_TEXT_CHARS + 5 * PART)), True
    yield task(*[long] * 300), True
    yield task(*[long] * 900), False  # too many places
    yield json.dumps({"result": {"message": {"parts": [{"text": long}, {"raw": long}]}}}).encode(), True
    yield json.dumps({"result": {"artifact": {"parts": [{"kind": "file", "file": {"bytes": long}}]}}}).encode(), True
    yield json.dumps({"result": {"history": [{"parts": [{"text": long}]}]}}).encode(), True
    yield json.dumps({"result": {"artifact": {"parts": [{"data": {"text": long}}]}}}).encode(), False
    yield json.dumps({"result": {"artifact": {"metadata": {METADATA_KEY: [{"text": long}]}}}}).encode(), False
    yield json.dumps({"error": {"message": long}}).encode(), False
    yield json.dumps({"result": {long: 1}}).encode(), False
    yield b'{"text": "%b", "text": "b"}' % long.encode(), False  # a member twice: the last counts
    yield json.dumps(task(long).decode()).encode(), False
    yield task(long).decode().encode("utf-16"), False
    yield b"\xef\xbb\xbf" + task(long), False
    yield task(long)[:-1], False
    yield b"[" * 2000 + task(long), False


@pytest.mark.parametrize(("document", "is_short"), list(strings()))
def test_only_texts_and_files_of_parts_are_taken_out(document: bytes, is_short: bool) -> None:
    check(document, [], is_short=is_short)


def test_a_document_with_a_long_text_takes_little_memory_but_its_bytes() -> None:
    texts = LongTexts(b"token")
    texts.feed(b'{"parts": [{"text": "')
    for _ in range(320):
        texts.feed(b"x" * 16 * PART)
    texts.feed(b'"}]}')
    document = texts.finish()
    assert document is not None
    assert len(document.data) < 100
    assert len(document.payload["parts"][0]["text"]) == MAX_TEXT_CHARS + 1
    assert MAX_TEXT_CHARS < document.size < 2 * MAX_TEXT_CHARS
