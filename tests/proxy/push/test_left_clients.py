"""Turns whose client has left before the response named its task: the webhook that its request set completes them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

import pytest
from a2a_eval_proxy.features.push.listener import WebhookSender
from a2a_eval_proxy.features.push.registry import WebhookRegistry
from a2a_eval_proxy.relay.relayed_exchange import RelayedExchange
from proxy.push.conftest import Endpoint, Relay, message
from proxy.push.test_relay import with_hook

HELD = {"before the first notification": (WebhookRegistry, "get"), "after it": (WebhookSender, "send")}


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("left", HELD)
async def test_notifications_complete_the_turn_of_a_client_that_left(
    relay: Relay, endpoint: Endpoint, left: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This agent notifies before it responds, and waits for the webhook meanwhile."""
    reached, free, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    owner, name = HELD[left]
    held, end = getattr(owner, name), RelayedExchange.end

    async def wait(*arguments: Any) -> Any:
        reached.set()
        await free.wait()
        return await held(*arguments)

    def noted(*arguments: Any, **more: Any) -> None:
        end(*arguments, **more)
        ended.set()

    text = f"late {uuid.uuid4()}"
    monkeypatch.setattr(owner, name, wait)
    request = {"message": message(text), "configuration": with_hook(endpoint.url)}
    sending = asyncio.create_task(relay.rpc(method, request))
    await asyncio.wait_for(reached.wait(), 60)
    monkeypatch.setattr(RelayedExchange, "end", noted)
    sending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sending
    await asyncio.wait_for(ended.wait(), 60)  # the proxy knows that its client has left
    free.set()
    await endpoint.until_ended()
    turn = await relay.turn(text)
    assert turn["state"] == "TASK_STATE_COMPLETED"
    assert turn["response_text"] == "done"
    assert [call["name"] for call in turn["tool_calls"]] == ["search", "search"]
    assert relay.codes(turn) == {"client_gone"}
