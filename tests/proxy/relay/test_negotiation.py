"""Whether requests get the extension's header: what the card said when it was last seen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_eval_proxy.net.http_client import UpstreamUnreachableError
from a2a_eval_proxy.protocol.operations import A2ARequest, Binding, Operation
from a2a_eval_proxy.relay.negotiation import Negotiation
from a2a_tool_capture import URI
from support.patience import PATIENCE_S

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


DOWN, NO_CARD, SILENT = UpstreamUnreachableError("down"), ValueError("no card"), TimeoutError()
BLOCKED, ANSWERS = object(), object()

# What happens when, with `agent` cards before it, and what is known then: `?` if the next request would wait for the
# card, and how often the agent was asked for it.
STORIES: dict[str, list[tuple[Any, float, str]]] = {
    **{
        f"without a card nothing is known: {problem!r}": [(problem, 0.0, "unknown ? 0"), ("prepare", 0.0, "unknown 1")]
        for problem in (DOWN, NO_CARD, SILENT, RecursionError())
    },
    "the first request waits, but not for ever": [
        (DECLARING, 0.0, "unknown ? 0"),
        (BLOCKED, 0.0, "unknown ? 0"),
        ("prepare", 0.0, "unknown 1"),
        (ANSWERS, 0.0, "unknown 1"),
        ("refresh", 0.0, "wanted 1"),
    ],
    "requests do not wait for an agent that just had no card": [
        (NO_CARD, 0.0, "unknown ? 0"),
        ("prepare", 0.0, "unknown 1"),
        (NO_CARD, 0.9, "unknown 1"),
        (NO_CARD, 1.0, "unknown ? 1"),
    ],
    "a card that never comes delays one request, and not each": [
        (SILENT, 0.0, "unknown ? 0"),
        (BLOCKED, 0.0, "unknown ? 0"),
        ("prepare", 0.0, "unknown 1"),
        (ANSWERS, 0.1, "unknown 1"),
        ("refresh", 0.1, "unknown 1"),
        (DOWN, 5.0, "unknown 1"),
        ("refresh", 5.0, "unknown 2"),
        (DOWN, 6.0, "unknown ? 2"),
    ],
    "knowledge grows stale, and holds until something else is known": [
        (DECLARING, 100.0, "unknown ? 0"),
        ("learn", 100.0, "wanted 0"),
        ("prepare", 129.0, "wanted 0"),
        ("prepare", 130.0, "wanted 1"),
    ],
    "a card that changes": [
        (DECLARING, 0.0, "unknown ? 0"),
        ("refresh", 0.0, "wanted 1"),
        ({}, 100.0, "wanted 1"),
        ("refresh", 100.0, "not wanted 2"),
    ],
    "an agent that is down is asked once a second": [
        (DOWN, 100.0, "unknown ? 0"),
        ("refresh", 100.0, "unknown 1"),
        ("prepare", 100.9, "unknown 1"),
        ("prepare", 101.0, "unknown 2"),
    ],
    "what was known outlives an agent that is down": [
        (DECLARING, 0.0, "unknown ? 0"),
        ("refresh", 0.0, "wanted 1"),
        (DOWN, 100.0, "wanted 1"),
        ("refresh", 100.0, "wanted 2"),
    ],
}


@pytest.mark.parametrize("name", STORIES)
async def test_what_is_known_of_an_agent(name: str) -> None:
    agent, waits_in_vain = Agent({}), any(step is BLOCKED for step, _, _ in STORIES[name])
    negotiation = Negotiation("declared", agent.fetch, first_wait_s=0.01 if waits_in_vain else PATIENCE_S, ttl_s=30.0)
    for step, now, expected in STORIES[name]:
        if step is BLOCKED or step is ANSWERS:
            agent.answers.set() if step is ANSWERS else agent.answers.clear()
        elif step == "learn":
            negotiation.learn(agent.card, now)
        elif isinstance(step, str):
            await getattr(negotiation, step)(now)
            await asyncio.sleep(0)
        else:
            agent.card = step
        known = ("wanted" if negotiation.wants_extension else "not wanted") if negotiation.known else "unknown"
        assert f"{known}{' ?' * negotiation.undecided(now)} {agent.asked}" == expected, (step, now)
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


async def test_closing_ends_a_fetch() -> None:
    agent = Agent(DECLARING)
    agent.answers.clear()
    negotiation = Negotiation("declared", agent.fetch)
    task = negotiation.refresh(0.0)
    await asyncio.sleep(0)
    await negotiation.close()
    assert task.cancelled()
    await Negotiation("declared", agent.fetch).close()
