"""Every client through the proxy: it sees what it sees directly, and the proxy sees the tool calls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agents.scenarios import Call
from e2e.contracts import GetAgent, GetClient, GetProxy
from e2e.journeys import ROUTES, Journey, Outcome, Route, comparable, journeys
from support.proxy import Turn


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
    route: Route, agent: GetAgent, client: GetClient, proxy_of: GetProxy, subtests: pytest.Subtests
) -> None:
    """An executor that raises and a connection that breaks look the same with and without the proxy, too."""
    upstream = agent(route.agent)
    perform = client(route.client)
    for journey in journeys(route):
        options = ["--run", "broken"] if journey.fails else ["--grpc", "127.0.0.1:0"] if route.binding == "GRPC" else []
        with subtests.test(str(journey)):
            proxy, through = proxy_of(upstream, *options), journey.again()
            direct = perform(**journey.again().job(route, upstream, control=upstream))
            proxied = perform(**through.job(route, proxy.url, control=upstream))

            assert bool(direct["error"]) is journey.fails
            if (journey.action, journey.scenario) == ("send", "cut"):
                # An answer that has to be cleaned is read whole before it is passed on, so here the proxy can still
                # say what happened (502); clients name the two differently.
                assert (bool(proxied["error"]), proxied["events"]) == (True, [])
            else:
                assert comparable(proxied, proxy.url) == comparable(direct, upstream)
            assert upstream not in json.dumps(proxied)
            for outcome in through.outcomes(route):
                turn = proxy.turn_of(outcome.user_text)
                assert_turn(turn, outcome, route)
                assert turn["capture"]["declared"] is True
                assert turn["capture"]["requested_by_client"] is (journey.ask != "no")


def test_message_extensions_ask_too(agent: GetAgent, client: GetClient, proxy_of: GetProxy) -> None:
    """A client that only lists the URI in `message.extensions` gets nothing from a gated agent, and all here."""
    upstream, route, journey = agent("v1"), ROUTES[0], Journey("stream", "chunks", "message")
    direct = client(route.client)(**journey.again().job(route, upstream, control=upstream))
    proxy = proxy_of(upstream)
    proxied = client(route.client)(**journey.job(route, proxy.url, control=upstream))
    assert ["tool_calls" in json.dumps(seen["events"]) for seen in (direct, proxied)] == [False, True]
    turn = proxy.turn_of(journey.text)
    assert_turn(turn, *journey.outcomes(route), route)
    assert turn["capture"]["requested_by_client"] is True
