"""Agents, clients and proxies of the end-to-end tests, started on first use and ended with the session."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agents.grpc_agent import grpc_agent
from agents.replay_agent import Answer, ReplayAgent
from agents.scenario_agent import AgentOptions, scenario_agent
from anyio.from_thread import start_blocking_portal
from e2e.contracts import Client, GetAgent, GetClient, GetProxy
from support.processes import ChildProcess
from support.provision import node_environment, python_environment
from support.proxy import Proxy
from support.recordings import RECORDED_AT, Recording

CLIENTS = Path(__file__).parent / "clients"
ADK_AGENT = Path(__file__).parents[1] / "agents" / "adk_agent.py"


INSTALLED = "v0.3", "adk", "python-0.3", "javascript-"
"""How the names of agents and clients begin that have an environment of their own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of such agents and clients have the marker `installs`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and (spec := getattr(item, "callspec", None)):
            names = [name for value in spec.params.values() for name in re.split("/|->", str(value))]
            if any(name.startswith(INSTALLED) for name in names):
                item.add_marker("installs")


@pytest.fixture(scope="session")
def _until_session_ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(scope="session")
def agent(_until_session_ends: ExitStack) -> GetAgent:
    @cache
    def get(name: str) -> str:
        if name.startswith("v0.3"):
            command = [python_environment("a2a-0.3"), "-m", "agents.v03_agent"]
            command += ["--gated-reads"] if name == "v0.3-gated-reads" else []
            child = _until_session_ends.enter_context(ChildProcess(command))
            return child.wait_for(r"listening on (http://\S+)")[1]
        if name == "adk":
            child = _until_session_ends.enter_context(ChildProcess([python_environment("frameworks"), ADK_AGENT]))
            return child.wait_for(r"listening on (http://\S+)")[1]
        if name == "v1-grpc":
            portal = _until_session_ends.enter_context(start_blocking_portal())
            return _until_session_ends.enter_context(portal.wrap_async_context_manager(grpc_agent())).url
        options = {
            "v1": AgentOptions(),
            "v1-ungated": AgentOptions(declared=False, gated=False),
            "v1-undeclared": AgentOptions(declared=False),
        }
        return _until_session_ends.enter_context(scenario_agent(options[name])).url

    return get


@pytest.fixture(scope="session")
def client(_until_session_ends: ExitStack) -> GetClient:
    def command(name: str) -> list[str | Path]:
        if name == "python-1":
            return [sys.executable, "-m", "e2e.clients.python_v1"]
        if name == "python-0.3":
            return [python_environment("a2a-0.3"), "-m", "e2e.clients.python_v03"]
        beside_packages = _until_session_ends.enter_context(TemporaryDirectory(dir=node_environment()))
        for file in CLIENTS.glob("*.mjs"):
            shutil.copy(file, beside_packages)
        return ["node", Path(beside_packages) / "javascript_v1.mjs"]

    @cache
    def get(name: str) -> Client:
        child = _until_session_ends.enter_context(ChildProcess(command(name)))

        def ask(**job: Any) -> dict[str, Any]:
            return json.loads(child.ask(json.dumps({"ask": "no", **job})))

        return ask

    return get


@pytest.fixture(scope="session")
def proxy_of(_until_session_ends: ExitStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GetProxy]:
    running: list[Proxy] = []

    @cache
    def get(upstream: str, *arguments: str) -> Proxy:
        store = tmp_path_factory.mktemp("store") / "turns.db"
        running.append(_until_session_ends.enter_context(Proxy(upstream, store, *arguments)))
        return running[-1]

    yield get
    for proxy in running:
        proxy.terminate()  # they end at the same time


@pytest.fixture(scope="session")
def replay(_until_session_ends: ExitStack) -> ReplayAgent:
    """The raw agent; every test prepares its own answer."""
    return _until_session_ends.enter_context(ReplayAgent())


@pytest.fixture
def replay_proxy_url(replay: ReplayAgent, proxy_of: GetProxy) -> str:
    """URL of a proxy before the raw agent, whose card declares the extension."""
    text = Recording.load("card").text.replace(RECORDED_AT, replay.authority)
    card = Recording("card", text).response_body
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(card)
    replay.card = Answer([head + card])
    return proxy_of(replay.url).url
