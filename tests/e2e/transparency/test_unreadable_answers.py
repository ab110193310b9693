"""Answers that the proxy asked for and cannot read: nothing of the extension reaches a client that did not ask."""

from __future__ import annotations

import gzip
import json
import re
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from e2e.contracts import GetProxy
from e2e.raw_http import RawResponse, exchange
from support.proxy import Proxy
from support.raw_a2a import Wire
from support.recordings import RECORDED_AT, Recording

CALLS = {"metadata": {f"{URI}/tool_calls": [{"name": "search"}]}, "extensions": [URI]}


TASK = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}


def document(*, calls: bool, text: str = "one") -> str:
    artifact = {"artifactId": "a", "parts": [{"text": text}]} | (CALLS if calls else {})
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"task": TASK | {"artifacts": [artifact]}}}
    return json.dumps(answer, separators=(",", ":"))


SENT, CLEAN = document(calls=True).encode(), document(calls=False).encode()


def answer(body: bytes, *headers: str, media_type: str = "application/json") -> Answer:
    lines = [f"content-type: {media_type}", f"content-length: {len(body)}", *headers]
    return Answer(["\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode() + body])


@pytest.fixture
def proxy(replay: ReplayAgent, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy of its own: what it meets may make it ask no more."""
    card = Recording("card", Recording.load("card").text.replace(RECORDED_AT, replay.authority)).response_body
    replay.card = answer(card)
    with Proxy(replay.url, tmp_path / "turns.db", "--limits", "body_bytes=100000") as running:
        yield running


def get(replay: ReplayAgent, proxy: Proxy, prepared: Answer, text: str = "", *, stream: bool = False) -> RawResponse:
    replay.prepare(prepared)
    return Wire("1.0", "JSONRPC").message(text or str(uuid.uuid4()), stream=stream).to(proxy.url)


def was_asked(replay: ReplayAgent) -> bool:
    return any(name == "a2a-extensions" for name, _ in replay.received[-1].headers)


def raw_deflate(body: bytes) -> bytes:
    return zlib.compress(body, wbits=-15)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (["content-encoding: gzip, gzip"], gzip.compress(gzip.compress(SENT))),
        (["content-encoding: gzip", "content-encoding: deflate"], zlib.compress(gzip.compress(SENT))),
        (["content-encoding: deflate"], raw_deflate(SENT)),
    ],
)
def test_codings_of_codings_are_read(headers: list[str], body: bytes, replay: ReplayAgent, proxy: Proxy) -> None:
    response = get(replay, proxy, answer(body, *headers))
    assert response.body == CLEAN
    assert response.header("content-encoding") is None


def test_an_agent_whose_coding_is_unknown_is_asked_once(replay: ReplayAgent, proxy: Proxy) -> None:
    """It was offered no such coding. Later answers pass, since the agent has nothing to report in them."""
    coded = answer(b"\x0b\x05\x80 brotli, perhaps", "content-encoding: br")

    first, second = get(replay, proxy, coded), get(replay, proxy, coded)

    assert first.status == 502
    assert not was_asked(replay)
    assert (second.status, second.body) == (200, b"\x0b\x05\x80 brotli, perhaps")
    assert len(re.findall("not asked for tool calls any more", proxy.stderr())) == 1


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────


def event(content: str) -> bytes:
    return b"data: " + content.encode() + b"\n\n"


def stream(*events: bytes, coding: str = "") -> Answer:
    headers = [f"content-encoding: {coding}"] if coding else []
    body = b"".join(events)
    return answer(raw_deflate(body) if coding else body, *headers, media_type="text/event-stream")


def test_what_names_the_extension_outside_of_data_is_left_out(replay: ReplayAgent, proxy: Proxy) -> None:
    text, name = str(uuid.uuid4()), URI.encode()
    good = event(document(calls=False))
    lines = [b"%b: %b\n" % (field, name) for field in (b"", b"event", b"id", b"odd")]
    response = get(replay, proxy, stream(good, *(line + good for line in lines), *lines), text, stream=True)

    assert response.body == good * 5
    assert "unreadable_event" in [finding["code"] for finding in proxy.turn_of(text)["findings"]]


def test_a_stream_of_raw_deflate_is_read(replay: ReplayAgent, proxy: Proxy) -> None:
    sent = stream(event(document(calls=False)), event(document(calls=True)), coding="deflate")
    assert get(replay, proxy, sent, stream=True).body == event(document(calls=False)) * 2


# ── places and paths ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("line", ["GET /history/t", "PUT /tasks/t", "GET /tasks/t/"])
def test_stored_calls_that_an_agent_shows_on_paths_of_its_own(
    line: str, replay: ReplayAgent, proxy_of: GetProxy
) -> None:
    """It was not asked there. But it may have stored what an earlier request asked for."""
    replay.prepare(answer(SENT))
    assert exchange(proxy_of(replay.url).url, f"{line} HTTP/1.1", [], b"").body == CLEAN
