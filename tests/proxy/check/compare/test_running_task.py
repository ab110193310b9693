"""`check --via` subscribes to a task that runs until all sides have done so, over every interface."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
import pytest_asyncio
from a2a_eval_proxy.check.compare import comparison
from a2a_eval_proxy.check.compare.comparison import RUNNING, InterfaceComparison, Side
from a2a_eval_proxy.check.compare.differences import OperationComparison
from a2a_eval_proxy.check.probe.client import AgentTransport, ProbeClient
from a2a_eval_proxy.check.probe.dialogue import interfaces_of
from agents.grpc_agent import grpc_agent
from proxy.check.compare.test_grpc import BrokenGrpcProxy, serving
from proxy.check.compare.test_http import INTERFACES
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent():
    async with grpc_agent() as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def interfaces(agent, tmp_path_factory):
    """By name, each interface of the agent, direct and proxied."""
    async with (
        running_proxy(agent.url, tmp_path_factory.mktemp("running")) as proxy,
        ProbeClient({}, PATIENCE_S) as client,
    ):
        (_, direct, _), (_, proxied, _) = [await interfaces_of(client, url) for url in (agent.url, proxy.url)]
        yield {str(one): (one, other) for one, other in zip(direct, proxied, strict=True)}


@pytest.fixture(autouse=True)
def _however_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_LEAST_RUN_S", 0.0)


async def compared(agent: Any, direct: Any, proxied: Any) -> list[OperationComparison]:
    """The comparisons of one interface. The agent's first tasks end once each side has subscribed to its own."""
    gate, before = str(uuid.uuid4()), agent.control.subscribers

    async def opens() -> None:
        while agent.control.subscribers < before + 3:
            await asyncio.sleep(0.01)
        await agent.control.open(gate)

    async with AgentTransport({}, PATIENCE_S, None, grpc_tls=False) as sender:
        sides = [Side(sender, each) for each in (direct, direct, proxied)]
        walk = InterfaceComparison(direct, (sides[0], sides[1], sides[2]), lambda what: None)
        opening = asyncio.create_task(opens())
        done = await walk.run([f"long {gate}"], streams=True, pushes=False)
        await opening
    return done


@pytest.mark.parametrize("name", INTERFACES)
async def test_nothing_differs(agent, interfaces, name) -> None:
    done = await compared(agent, *interfaces[name])
    assert [one.operation for one in done].count(RUNNING) == 1
    assert [delta for one in done for delta in one.faults] == []


async def test_a_proxy_that_loses_the_end_of_a_subscription(agent, interfaces, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "_ATTEMPTS", 1)
    direct, _ = interfaces["GRPC 1.0"]
    async with serving(BrokenGrpcProxy(agent.address, messages=lambda found: found[:1])) as address:
        done = await compared(agent, direct, type(direct)(direct.binding, direct.version, address))
    (found,) = [one for one in done if one.operation == RUNNING]
    assert [delta.what for delta in found.faults] == ["events"]


async def test_an_agent_that_finishes_at_once_has_no_running_task(agent, interfaces, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "_LEAST_RUN_S", 600.0)
    direct, proxied = interfaces["JSONRPC 1.0"]
    assert RUNNING not in {one.operation for one in await compared(agent, direct, proxied)}
