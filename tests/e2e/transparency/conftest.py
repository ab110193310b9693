"""An agent that reads HTTP by the book, and the proxy before it, which asks for the extension: for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from agents.h11_agent import H11Agent, echo
from support.proxy import Proxy


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[H11Agent, Proxy]]:
    store = tmp_path_factory.mktemp("store") / "turns.db"
    with H11Agent() as agent, Proxy(agent.url, store, "--negotiate", "always") as proxy:
        yield agent, proxy


@pytest.fixture
def plain_agent(served: tuple[H11Agent, Proxy]) -> Iterator[H11Agent]:
    """It echoes, and has received nothing yet; at the end it has received nothing that is no HTTP."""
    agent, _ = served
    agent.behave = echo
    for received in (agent.requests, agent.card_requests, agent.errors):
        received.clear()
    yield agent
    assert agent.errors == []


@pytest.fixture
def plain_proxy(served: tuple[H11Agent, Proxy]) -> Iterator[Proxy]:
    """Whatever happened, there is no traceback in its log."""
    yield served[1]
    assert "Traceback" not in served[1].stderr()
