"""A real google-adk agent behind the proxy: its calls are read where that is asked for, and never kept from clients."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture import ToolCall
from a2a_tool_capture.client import CaptureClient
from e2e.contracts import GetAgent, GetProxy
from support.prefork import run

STYLES = ("adk-messages", "adk-artifacts")

WEATHER = {"name": "get_weather", "arguments": {"city": "Zürich"}, "result": "Sunny, 21C in Zürich"}

SUITE = """\
suite: weather
evaluators: [tool_call_args]
cases:
  - id: weather
    turns:
      - user: "{text}"
        expect:
          tool_calls:
            - {{name: get_weather, arguments: {{city: Zürich}}}}
            - {{name: find_flights, arguments: {{query: {{to: NYC}}, max_results: 3}}}}
            - {{name: get_weather, arguments: {{city: Zürich}}}}
"""


def shown(call: dict[str, Any] | ToolCall) -> dict[str, Any]:
    entry = call.to_dict() if isinstance(call, ToolCall) else call
    return {key: entry[key] for key in ("name", "arguments", "result")}


@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "send"])
@pytest.mark.parametrize("style", STYLES)
async def test_calls_of_google_adk_are_captured_and_scored(
    style: str, streaming: bool, agent: GetAgent, proxy_of: GetProxy, tmp_path: Path
) -> None:
    text = f"tools {uuid.uuid4()}"
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(text=text), "utf-8")
    proxy = proxy_of(agent(style), "--dialects", "adk", "--suite", str(suite))
    async with CaptureClient(proxy.url, streaming=streaming) as client:
        turn = await client.send(text)
    assert turn.text == "It is sunny."
    captured = proxy.turn_of(text)
    calls = captured["tool_calls"]
    assert [call["name"] for call in calls] == ["get_weather", "find_flights", "get_weather"]
    assert shown(calls[0]) == shown(calls[2]) == WEATHER
    assert captured["capture"]["sources"] == {"adk": 3}
    assert captured["capture"]["protocol_only"] == 3
    assert captured["findings"] == []
    assert [result["score"] for result in captured["evaluations"]] == [1.0]


@pytest.mark.parametrize("style", STYLES)
async def test_the_proxy_reads_them_only_where_asked_and_clients_see_them_in_any_case(
    style: str, agent: GetAgent, proxy_of: GetProxy
) -> None:
    for dialects, expected in (((), 0), (("--dialects", "kagent"), 0), (("--dialects", "kagent,adk"), 1)):
        text = f"error {uuid.uuid4()}"
        proxy = proxy_of(agent(style), *dialects)
        async with CaptureClient(proxy.url, dialects=["adk"]) as client:
            turn = await client.send(text)
        assert [(call.name, call.error) for call in turn.tool_calls] == [("book_hotel", "hotel H-404 not found")]
        assert len(proxy.turn_of(text)["tool_calls"]) == expected


@pytest.mark.parametrize("dialects", ["adk", ""], ids=["read", "not read"])
def test_a_run_reads_them_too(dialects: str, agent: GetAgent, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(text="tools please"), "utf-8")
    options = ["--dialects", dialects] if dialects else []
    result = run("run", suite, "--agent", agent("adk-messages"), "--store", "turns.db", *options, cwd=tmp_path)
    assert result.returncode == (0 if dialects else 1), result.stdout + result.stderr
    line = run("export", "--store", "turns.db", cwd=tmp_path).stdout
    assert len(json.loads(line)["tool_calls"]) == (3 if dialects else 0)
