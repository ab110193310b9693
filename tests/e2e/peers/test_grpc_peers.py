"""The client and the agent of a2a-sdk 0.3 over gRPC: the same answers direct and proxied, and captured turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from agents.grpc_agent import grpc_agent
from agents.scenarios import URI
from e2e.contracts import GetAgent, GetClient, GetProxy
from e2e.journeys import Journey, Route, comparable
from e2e.peers.test_clients import assert_turn
from support.proxy import Proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUTES = [
    Route("python-0.3", "0.3", "GRPC", "v0.3"),
    Route("python-0.3", "0.3", "GRPC", "v1"),
    Route("python-1", "0.3", "GRPC", "v0.3"),
]
ANSWERED = [
    *(Journey("stream", scenario) for scenario in ("artifact", "chunks-late", "message", "fail", "multi")),
    *(Journey("send", scenario) for scenario in ("artifact", "message")),
    *(Journey(action, "long") for action in ("poll", "subscribe", "cancel")),
    *(Journey(action, scenario, "header") for action, scenario in (("stream", "chunks"), ("send", "multi"))),
    Journey("resume", "ask", "header"),
    Journey("resume", "ask"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agents(agent: GetAgent) -> AsyncIterator[dict[str, str]]:
    """URLs of the agents, whose cards name their gRPC addresses."""
    async with grpc_agent() as current:
        yield {"v0.3": agent("v0.3"), "v1": current.url}


class Peers:
    """A client of a route, and the agent and the proxy that it asks."""

    def __init__(self, route: Route, agents: dict[str, str], client: GetClient, proxy_of: GetProxy) -> None:
        self._route = route
        self._upstream = agents[route.agent]
        self._client = client(route.client)
        self._proxy_of = proxy_of

    async def proxy(self) -> Proxy:
        return await asyncio.to_thread(self._proxy_of, self._upstream, "--grpc", "127.0.0.1:0")

    async def direct(self, journey: Journey) -> Any:
        return comparable(await self._perform(journey, self._upstream), self._upstream)

    async def proxied(self, journey: Journey) -> Any:
        proxy = await self.proxy()
        return comparable(await self._perform(journey, proxy.url), proxy.url)

    async def _perform(self, journey: Journey, base: str) -> Any:
        job = journey.job(self._route, base, control=self._upstream)
        return await asyncio.to_thread(self._client, **job)


@pytest.fixture
def peers(route: Route, agents: dict[str, str], client: GetClient, proxy_of: GetProxy) -> Peers:
    return Peers(route, agents, client, proxy_of)


def possible(route: Route, journey: Journey) -> bool:
    """The agent of 0.3 closes a subscription over gRPC before its last events are sent, with or without a proxy."""
    return route.agent != "v0.3" or journey.action != "subscribe"


@pytest.mark.parametrize(
    ("route", "journey"),
    [(route, journey) for route in ROUTES for journey in ANSWERED if possible(route, journey)],
    ids=str,
)
async def test_proxied_equals_direct_and_turns_are_captured(journey: Journey, peers: Peers, route: Route) -> None:
    direct = await peers.direct(journey.again())
    assert (direct["error"], bool(direct["events"])) == (None, True)
    assert (URI in json.dumps(direct["events"])) is (journey.ask == "header")

    through = journey.again()
    assert await peers.proxied(through) == direct

    for outcome in through.outcomes(route):
        turn = await asyncio.to_thread((await peers.proxy()).turn_of, outcome.user_text)
        assert_turn(turn, outcome, route)
        assert turn["capture"]["requested_by_client"] is (journey.ask == "header")
