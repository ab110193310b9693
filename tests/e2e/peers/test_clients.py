"""Every client through the proxy: it sees what it sees directly, and the proxy sees the tool calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents.scenarios import Call
from e2e.contracts import GetAgent, GetClient, GetProxy
from e2e.journeys import ROUTES, Journey, Outcome, Route, comparable, journeys
from support.proxy import Proxy, Turn


def plain_call(call: dict[str, Any]) -> dict[str, Any]:
    """The fields an agent sends, with results as values: they travel as their JSON text."""
    plain = {key: call[key] for key in ("id", "name", "arguments")}
    for key in ("result", "error"):
        value = call.get(key)
        if isinstance(value, str) and value.startswith(("{", "[")):
            value = json.loads(value)
        plain[key] = value
    return plain


def expected_calls(calls: tuple[Call, ...]) -> list[dict[str, Any]]:
    return [plain_call(call) for call in calls]


def state_word(state: str | None) -> str:
    return (state or "").removeprefix("TASK_STATE_").lower().replace("_", "-")


def assert_turn(turn: Turn, expected: Outcome, route: Route) -> None:
    assert [plain_call(call) for call in turn["tool_calls"]] == expected_calls(expected.calls)
    assert {call["source"] for call in turn["tool_calls"]} <= {"a2a_protocol"}
    assert turn["response_text"] == expected.response_text
    if expected.state is not None:
        assert state_word(turn["state"]) == expected.state
    assert {finding["code"] for finding in turn["findings"]} >= set(expected.findings)
    assert turn["binding"] == route.binding
    assert turn["protocol_version"].startswith(route.version)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_proxied_equals_direct_and_turn_is_captured(
    route: Route,
    agent: GetAgent,
    client: GetClient,
    proxy_of: GetProxy,
    subtests: pytest.Subtests,
) -> None:
    upstream = agent(route.agent)
    proxy = proxy_of(upstream)
    perform = client(route.client)
    for journey in journeys(route):
        with subtests.test(str(journey)):
            direct_journey = journey.again()
            direct = perform(**direct_journey.job(route, upstream, control=upstream))
            assert direct["error"] is None
            assert direct["events"]

            through = journey.again()
            proxied = perform(**through.job(route, proxy.url, control=upstream))

            assert comparable(proxied, proxy.url) == comparable(direct, upstream)
            for outcome in through.outcomes(route):
                turn = proxy.turn_of(outcome.user_text)
                assert_turn(turn, outcome, route)
                assert turn["capture"]["declared"] is True
                assert turn["capture"]["requested_by_client"] is (journey.ask != "no")


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_extended_card(route: Route, agent: GetAgent, client: GetClient, proxy_of: GetProxy) -> None:
    upstream = agent(route.agent)
    proxy = proxy_of(upstream)
    journey = Journey("extended-card", "none")

    direct = client(route.client)(**journey.job(route, upstream, control=upstream))
    proxied = client(route.client)(**journey.job(route, proxy.url, control=upstream))

    assert "(extended)" in json.dumps(direct["events"])
    assert comparable(proxied, proxy.url) == comparable(direct, upstream)
    assert upstream not in json.dumps(proxied)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("name", ["python-1", "javascript-1"])
@pytest.mark.parametrize("ask", ["no", "header"])
def test_listing(
    name: str,
    binding: str,
    ask: str,
    agent: GetAgent,
    client: GetClient,
    proxy_of: GetProxy,
) -> None:
    """A list without artifacts is no snapshot: the calls of the listed task stay known."""
    route = Route(name, "1.0", binding, "v1")
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    direct = client(name)(**Journey("list", "artifact", ask).job(route, upstream, control=upstream))
    journey = Journey("list", "artifact", ask)

    proxied = client(name)(**journey.job(route, proxy.url, control=upstream))

    assert len(direct["events"]) == 3
    assert comparable(proxied, proxy.url) == comparable(direct, upstream)
    assert_turn(proxy.turn_of(journey.text), *journey.outcomes(route), route)


@pytest.mark.parametrize("action", ["stream", "send"])
@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.client == "python-1" and route.version == "1.0"], ids=str
)
def test_message_extensions_ask_too(
    route: Route,
    action: str,
    agent: GetAgent,
    client: GetClient,
    proxy_of: GetProxy,
) -> None:
    """A client that only lists the URI in `message.extensions` gets nothing from a gated agent, and all here."""
    upstream = agent("v1")
    direct = client(route.client)(**Journey(action, "chunks", "message").job(route, upstream, control=upstream))
    assert "tool_calls" not in json.dumps(direct["events"])

    proxied, turn = _through_proxy(route, Journey(action, "chunks", "message"), upstream, client, proxy_of(upstream))

    assert "tool_calls" in json.dumps(proxied["events"])
    assert turn["capture"]["requested_by_client"] is True


def _through_proxy(
    route: Route, journey: Journey, upstream: str, client: GetClient, proxy: Proxy
) -> tuple[dict[str, Any], Turn]:
    answer = client(route.client)(**journey.job(route, proxy.url, control=upstream))
    turn = proxy.turn_of(journey.text)
    assert_turn(turn, *journey.outcomes(route), route)
    return answer, turn


BROKEN_ROUTES = [route for route in ROUTES if route.client in ("python-1", "python-0.3", "javascript-1")]


@pytest.mark.parametrize("scenario", ["error", "cut"])
@pytest.mark.parametrize("action", ["stream", "send"])
@pytest.mark.parametrize("route", BROKEN_ROUTES, ids=str)
def test_failing_agent_fails_the_same_way(
    route: Route,
    action: str,
    scenario: str,
    agent: GetAgent,
    client: GetClient,
    proxy_of: GetProxy,
) -> None:
    """An executor that raises and a connection that breaks look the same with and without the proxy."""
    upstream = agent(route.agent)
    proxy = proxy_of(upstream, "--run", "broken")
    direct = client(route.client)(**Journey(action, scenario).job(route, upstream, control=upstream))
    assert direct["error"] is not None

    proxied = client(route.client)(**Journey(action, scenario).job(route, proxy.url, control=upstream))

    if (action, scenario) == ("send", "cut"):
        # An answer that has to be cleaned is read whole before it is passed on, so here the proxy can still say
        # what happened (502); clients name the two differently.
        assert proxied["error"] is not None
        assert proxied["events"] == []
    else:
        assert comparable(proxied, proxy.url) == comparable(direct, upstream)
