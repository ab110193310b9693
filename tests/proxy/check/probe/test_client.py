"""Talking to agents that hang, break off, ramble, or have no card."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from a2a_eval_proxy.features.check import client
from a2a_eval_proxy.features.check.client import ProbeClient
from a2a_eval_proxy.features.check.record import Activation, Interface, ProbeExchange
from a2a_eval_proxy.features.check.rules import CheckVerdict, RuleStatus
from a2a_eval_proxy.protocol.operations import Operation
from a2a_tool_capture.errors import AgentUnreachableError, ConfigurationError
from agents.serving import ServerThread
from support.checking import check, rules_with
from support.patience import PATIENCE_S

WORKING = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
DONE = {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}

Send = Callable[[Any], Awaitable[None]]
Answer = Callable[[Any, Send], Awaitable[None]]


def app(answer: Answer) -> Callable[[str], Any]:
    """An agent whose every answer but the card's is `answer`'s, given receive and send."""

    def build(url: str) -> Any:
        card = {
            "name": "Odd",
            "capabilities": {"streaming": True},
            "supportedInterfaces": [{"url": f"{url}/", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}],
        }

        async def served(scope: Any, receive: Any, send: Send) -> None:
            if scope["path"].startswith("/.well-known"):
                await plain(send, json.dumps(card).encode())
            else:
                await answer(receive, send)

        return served

    return build


async def plain(send: Send, body: bytes, status: int = 200, kind: bytes = b"application/json") -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body})


async def begin_stream(send: Send, *events: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for event in events:
        data = f"data: {json.dumps(event)}\r\n\r\n".encode()
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def stream(answer: Answer, timeout_s: float = PATIENCE_S) -> ProbeExchange:
    """One stream of that agent."""
    with ServerThread(app(answer)) as agent:
        interface = Interface("HTTP+JSON", "1.0", agent.url)
        async with ProbeClient({}, timeout_s) as probe:
            return await probe.send(interface, Operation.STREAM, "hello", Activation.NOTHING)


async def hangs(receive: Any, send: Send) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def leaves_open(receive: Any, send: Send) -> None:
    await begin_stream(send, WORKING, DONE)
    await hangs(receive, send)


async def breaks_off(receive: Any, send: Send) -> None:
    await begin_stream(send, WORKING)
    raise RuntimeError("planned")


async def rambles(receive: Any, send: Send) -> None:
    await begin_stream(send, *[WORKING] * 20, DONE)
    await send({"type": "http.response.body", "body": b""})


async def test_a_stream_left_open_is_left_when_the_task_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CLOSING_GRACE_S", 0.05)
    exchange = await stream(leaves_open)
    assert (len(exchange.events), exchange.problem) == (2, "")


async def test_a_broken_stream_keeps_what_came() -> None:
    exchange = await stream(breaks_off)
    assert len(exchange.events) == 1
    assert "closed the connection" in exchange.problem


@pytest.mark.parametrize(("name", "limit"), [("MAX_BODY_BYTES", 500), ("MAX_EVENTS", 5)])
async def test_an_answer_without_end_is_cut(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, name, limit)
    exchange = await stream(rambles)
    assert "exceeds" in exchange.problem
    assert len(exchange.events) <= 21


@pytest.mark.parametrize("in_stream", [True, False])
async def test_a_status_whose_time_has_no_offset_is_read(in_stream: bool) -> None:
    """The metadata beside it has times of its own, which stay."""
    when = "2026-11-29T10:00:00.5"
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": when}
    done = {"task": {"id": "t", "contextId": "c", "status": status, "metadata": {"status": {"timestamp": when}}}}

    async def answers(receive: Any, send: Send) -> None:
        if in_stream:
            await begin_stream(send, done)
            await send({"type": "http.response.body", "body": b""})
        else:
            await plain(send, json.dumps(done, indent=1).encode())

    exchange = await stream(answers)
    (event,) = exchange.events
    assert exchange.problem == ""
    assert event["task"]["status"] == {"state": "TASK_STATE_COMPLETED"}
    assert event["task"]["metadata"] == {"status": {"timestamp": when}}


async def test_an_agent_that_hangs_is_named_and_holds_nobody_up() -> None:
    with ServerThread(app(hangs)) as agent:
        async with asyncio.timeout(PATIENCE_S):
            report = await check(agent.url, "hello", timeout_s=4)
    assert {"answers", "card-declares"} == rules_with(report, RuleStatus.FAILED)
    assert [len(item.turns) for item in report.record.conversations] == [1]
    assert report.verdict is CheckVerdict.NOT_CONFORMING


# ── cards ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_card_that_never_comes_is_nobody_there() -> None:
    def build(url: str) -> Any:
        async def served(scope: Any, receive: Any, send: Send) -> None:
            assert scope["type"] == "http"
            await hangs(receive, send)

        return served

    with ServerThread(build) as agent:
        async with ProbeClient({}, 0.2) as probe:
            with pytest.raises(AgentUnreachableError, match=r"no answer within 0\.2 s"):
                await probe.card(agent.url)


def test_headers_that_the_check_itself_sets_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'X-A2A-Extensions' is set by the check itself"):
        ProbeClient({"X-A2A-Extensions": "x"}, 10)
