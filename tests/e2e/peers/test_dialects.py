"""A real google-adk agent behind the proxy: its calls are read where that is asked for, and never kept from clients."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from a2a_tool_capture.client import CaptureClient
from e2e.contracts import GetAgent, GetProxy
from support.prefork import run

pytestmark = pytest.mark.installs

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


async def test_the_proxy_reads_them_only_where_asked_and_clients_see_them_in_any_case(
    agent: GetAgent, proxy_of: GetProxy
) -> None:
    for dialects, expected in (((), 0), (("--dialects", "kagent,adk"), 1)):
        text = f"error {uuid.uuid4()}"
        proxy = proxy_of(agent("adk"), *dialects)
        async with CaptureClient(proxy.url, dialects=["adk"]) as client:
            turn = await client.send(text)
        assert [(call.name, call.error) for call in turn.tool_calls] == [("book_hotel", "hotel H-404 not found")]
        assert len(proxy.turn_of(text)["tool_calls"]) == expected


def test_a_run_reads_them_too(agent: GetAgent, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE.format(text="tools please"), "utf-8")
    options = ("--dialects", "adk", "--store", "turns.db")
    result = run("run", suite, "--agent", agent("adk"), *options, cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    line = run("export", "--store", "turns.db", cwd=tmp_path).stdout
    assert len(json.loads(line)["tool_calls"]) == 3
