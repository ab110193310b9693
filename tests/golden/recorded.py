"""The recorded scenarios as events, and what a reader has to make of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from a2a_eval_proxy.protocol.sse import SseSplitter
from a2a_tool_capture.wire import normalize_event
from support.recordings import Recording, names

TURNS = Path(__file__).parent / "turns"

SCENARIOS = sorted(path.stem for path in TURNS.glob("*.json"))
VARIANTS = ("jsonrpc-v1.0", "jsonrpc-v0.3", "rest-v1.0", "rest-v0.3")


@cache
def expected_turn(scenario: str) -> dict[str, Any]:
    """The golden turn of a scenario."""
    return json.loads((TURNS / f"{scenario}.json").read_text("utf-8"))


def recordings(operation: str) -> list[tuple[str, str]]:
    """Every (recording's name, scenario) of an operation (`stream`, `send`) in which tool calls were asked for."""
    found = []
    for variant in VARIANTS:
        for scenario in SCENARIOS:
            name = f"{variant}-{operation}-{scenario}"
            name = f"{name}-ext" if f"{name}-ext" in names() else name
            if name in names():
                found.append((name, scenario))
    return found


def payloads(recording: Recording) -> Iterator[Any]:
    """The JSON of each event of a stream, or of the one answer."""
    if recording.streams:
        for event in SseSplitter(1_000_000).feed(recording.response_body):
            if event.data:
                yield json.loads(event.data)
    else:
        yield json.loads(recording.response_body)


def events(name: str) -> list[dict[str, Any]]:
    """The recording's events in 1.0 shape."""
    found = []
    for payload in payloads(Recording.load(name)):
        event = normalize_event(payload["result"] if name.startswith("jsonrpc") else payload)
        assert event is not None, payload
        found.append(event)
    return found
