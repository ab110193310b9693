"""Whether requests get the extension's header: what the card said when it was last seen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_eval_proxy.net.http_client import UpstreamUnreachableError
from a2a_eval_proxy.protocol.operations import A2ARequest, Binding, Operation
from a2a_eval_proxy.relay.negotiation import Negotiation
from a2a_tool_capture import URI

DECLARING = {"capabilities": {"extensions": [{"uri": URI}]}}


class Agent:
    """Gives its card when it is asked and there is one."""

    def __init__(self, card: Any) -> None:
        self.card = card
        self.asked = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def fetch(self) -> Any:
        self.asked += 1
        await self.answers.wait()
        if isinstance(self.card, Exception):
            raise self.card
        return self.card


@pytest.mark.parametrize(
    ("mode", "card", "wanted"),
    [
        ("declared", DECLARING, True),
        ("declared", {}, False),
        ("declared", "junk", False),
        ("always", {}, True),
        ("never", DECLARING, False),
    ],
)
async def test_when_the_extension_is_wanted(mode: str, card: Any, wanted: bool) -> None:
    negotiation = Negotiation(mode, Agent(card).fetch)
    await negotiation.prepare(0.0)
    assert negotiation.wants_extension is wanted
    assert negotiation.known


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("operation", list(Operation))
def test_only_operations_that_are_guarded_are_asked_in(operation: Operation, mode: str) -> None:
    negotiation = Negotiation(mode, Agent({}).fetch)
    guarded = operation not in (Operation.OTHER, Operation.BATCH, Operation.EXTENDED_CARD)
    assert negotiation.asks(A2ARequest(operation, Binding.JSONRPC)) is (guarded and mode == "always")
    assert not negotiation.asks(A2ARequest(operation, Binding.JSONRPC, has_webhook=True))


def test_a_request_that_could_not_be_read_is_not_asked_in() -> None:
    assert not Negotiation("always", Agent({}).fetch).asks(None)


@pytest.mark.parametrize(
    "problem", [UpstreamUnreachableError("down"), ValueError("no card"), TimeoutError(), RecursionError()]
)
async def test_without_a_card_nothing_is_known(problem: Exception) -> None:
    negotiation = Negotiation("declared", Agent(problem).fetch)
    await negotiation.prepare(0.0)
    assert not negotiation.known
    assert not negotiation.wants_extension


async def test_the_first_request_waits_but_not_for_ever() -> None:
    agent = Agent(DECLARING)
    agent.answers.clear()
    negotiation = Negotiation("declared", agent.fetch, first_wait_s=0.01)
    await negotiation.prepare(0.0)
    assert not negotiation.known
    agent.answers.set()
    await negotiation.refresh(0.0)
    assert negotiation.wants_extension
    await negotiation.close()


async def test_a_request_right_after_the_start_waits_for_the_card_that_is_on_its_way() -> None:
    agent = Agent(DECLARING)
    agent.answers.clear()
    negotiation = Negotiation("declared", agent.fetch)
    negotiation.refresh(0.0)
    assert negotiation.undecided(0.1)
    waiting = asyncio.ensure_future(negotiation.prepare(0.1))
    await asyncio.sleep(0)
    agent.answers.set()
    await waiting
    assert negotiation.wants_extension
    assert not negotiation.undecided(0.2)
    assert agent.asked == 1


async def test_requests_do_not_wait_for_an_agent_that_just_had_no_card() -> None:
    negotiation = Negotiation("declared", Agent(ValueError("no card")).fetch)
    assert negotiation.undecided(0.0)
    await negotiation.prepare(0.0)
    assert not negotiation.undecided(0.9)
    assert negotiation.undecided(1.0)


async def test_a_card_that_never_comes_delays_one_request_and_not_each() -> None:
    agent = Agent(TimeoutError())
    agent.answers.clear()
    negotiation = Negotiation("declared", agent.fetch, first_wait_s=0.01)
    assert negotiation.undecided(0.0)
    await negotiation.prepare(0.0)
    assert not negotiation.undecided(0.1)
    agent.answers.set()
    await negotiation.refresh(0.1)  # in vain, too
    assert not negotiation.undecided(5.0)
    agent.card = UpstreamUnreachableError("restarting")
    await negotiation.refresh(5.0)
    assert negotiation.undecided(6.0)


async def test_many_first_requests_fetch_the_card_once() -> None:
    agent = Agent(DECLARING)
    negotiation = Negotiation("declared", agent.fetch)
    await asyncio.gather(*(negotiation.prepare(0.0) for _ in range(10)))
    assert agent.asked == 1


async def test_knowledge_grows_stale() -> None:
    agent = Agent(DECLARING)
    negotiation = Negotiation("declared", agent.fetch, ttl_s=30.0)
    negotiation.learn(DECLARING, 100.0)
    await negotiation.prepare(129.0)
    await asyncio.sleep(0)
    assert agent.asked == 0
    await negotiation.prepare(130.0)
    await asyncio.sleep(0)
    assert agent.asked == 1
    assert negotiation.wants_extension  # until something else is known


async def test_a_card_that_changes_changes_what_is_wanted() -> None:
    agent = Agent(DECLARING)
    negotiation = Negotiation("declared", agent.fetch)
    await negotiation.refresh(0.0)
    assert negotiation.wants_extension
    agent.card = {}
    await negotiation.refresh(100.0)
    assert not negotiation.wants_extension


async def test_an_agent_that_is_down_is_asked_once_a_second() -> None:
    agent = Agent(UpstreamUnreachableError("down"))
    negotiation = Negotiation("declared", agent.fetch)
    await negotiation.refresh(100.0)
    await negotiation.prepare(100.9)
    assert agent.asked == 1
    await negotiation.prepare(101.0)
    assert agent.asked == 2


async def test_what_was_known_outlives_an_agent_that_is_down() -> None:
    agent = Agent(DECLARING)
    negotiation = Negotiation("declared", agent.fetch)
    await negotiation.refresh(0.0)
    agent.card = UpstreamUnreachableError("down")
    await negotiation.refresh(100.0)
    assert negotiation.wants_extension


async def test_closing_ends_a_fetch() -> None:
    agent = Agent(DECLARING)
    agent.answers.clear()
    negotiation = Negotiation("declared", agent.fetch)
    task = negotiation.refresh(0.0)
    await asyncio.sleep(0)
    await negotiation.close()
    assert task.cancelled()
    await Negotiation("declared", agent.fetch).close()
