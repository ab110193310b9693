"""Answers that the proxy asked for and cannot read: nothing of the extension reaches a client that did not ask."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenarios import URI
from support.proxy import Proxy
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


def raw_deflate(body: bytes) -> bytes:
    return zlib.compress(body, wbits=-15)


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────


def event(content: str) -> bytes:
    return b"data: " + content.encode() + b"\n\n"


def stream(*events: bytes, coding: str = "") -> Answer:
    headers = [f"content-encoding: {coding}"] if coding else []
    body = b"".join(events)
    return answer(raw_deflate(body) if coding else body, *headers, media_type="text/event-stream")


# ── places and paths ────────────────────────────────────────────────────────────────────────────────────────
