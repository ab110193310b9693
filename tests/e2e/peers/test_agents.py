"""The test agents themselves, without the proxy: what they show to which client, so that other tests have a meaning."""

from __future__ import annotations

import json

import pytest
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetClient
from e2e.journeys import ROUTES, Journey, Route
from support.recordings import names


@pytest.mark.parametrize("route", ROUTES, ids=str)
@pytest.mark.parametrize(("ask", "told"), [("no", False), ("header", True), ("message", False)])
def test_gated_agent_tells_calls_only_to_who_asked_by_header(
    route: Route, ask: str, told: bool, agent: GetAgent, client: GetClient
) -> None:
    url = agent(route.agent)
    answer = client(route.client)(**Journey("stream", "chunks", ask).job(route, url, control=url))
    assert answer["error"] is None
    seen = json.dumps(answer["events"])
    assert ("tool_calls" in seen) is told
    assert ("call-2" in seen) is told


def test_ungated_agent_tells_everyone(agent: GetAgent, client: GetClient) -> None:
    url = agent("v1-ungated")
    route = Route("python-1", "1.0", "JSONRPC", "v1-ungated")
    answer = client("python-1")(**Journey("send", "artifact").job(route, url, control=url))
    assert "call-2" in json.dumps(answer["events"])
    assert URI not in json.dumps(answer["card"])


def test_the_reference_client_gets_nothing_from_a_gated_agent(agent: GetAgent, client: GetClient) -> None:
    answer = client("arksim")(base=agent("v1"), action="stream", text="chunks please")
    assert answer["error"] is None
    assert answer["events"][0]["tool_calls"] == []


def test_every_extension_recording_has_its_counterpart() -> None:
    asking = names("*-ext")
    assert asking
    assert {name.removesuffix("-ext") for name in asking} <= set(names())
