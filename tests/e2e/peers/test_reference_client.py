"""arksim, the reference client: it lists the URI in `message.extensions` only, and correct agents ignore that."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from agents.scenarios import SCENARIOS, Call
from e2e.contracts import GetAgent, GetClient, GetProxy


def run(client: GetClient, base: str, text: str) -> dict[str, Any]:
    answer = client("arksim")(base=base, action="stream", text=text)
    assert answer["error"] is None
    (event,) = answer["events"]
    return dict(event)


def named(calls: tuple[Call, ...]) -> list[tuple[str, Any]]:
    return [(call["name"], call["arguments"]) for call in calls]


@pytest.mark.parametrize("scenario", ["artifact", "chunks", "chunks-late", "multi", "snapshot"])
def test_it_gets_the_tool_calls_of_a_gated_agent_through_the_proxy(
    scenario: str, agent: GetAgent, client: GetClient, proxy_of: GetProxy
) -> None:
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    text = f"{scenario} {uuid.uuid4()}"

    direct = run(client, upstream, f"{scenario} {uuid.uuid4()}")
    proxied = run(client, proxy.url, text)

    assert direct["tool_calls"] == []
    # It counts a call twice that two artifacts list: its own reading, not the proxy's.
    got = [(call["name"], call["arguments"]) for call in proxied["tool_calls"]]
    assert [call for position, call in enumerate(got) if call not in got[:position]] == named(SCENARIOS[scenario].calls)
    assert proxied["text"] == direct["text"]
    turn = proxy.turn_of(text)
    assert [(call["name"], call["arguments"]) for call in turn["tool_calls"]] == named(SCENARIOS[scenario].calls)
    assert turn["capture"]["requested_by_client"] is True
