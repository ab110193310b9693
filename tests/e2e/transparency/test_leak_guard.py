"""A client that did not ask for the extension gets what the agent would have sent it: nothing of the extension."""

from __future__ import annotations

import uuid

import pytest
from e2e.contracts import GetAgent, GetProxy
from support.raw_a2a import BINDINGS, Wire


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("version", "binding"), BINDINGS)
def test_ungated_agent_does_not_leak_through(
    version: str, binding: str, stream: bool, agent: GetAgent, proxy_of: GetProxy
) -> None:
    """Agents that report calls to everyone are cleaned too, and still captured."""
    upstream = agent("v1-ungated")
    proxy = proxy_of(upstream)
    wire = Wire(version, binding)
    text = f"chunks {uuid.uuid4()}"

    direct = wire.message(f"chunks {uuid.uuid4()}", stream=stream).to(upstream)
    response = wire.message(text, stream=stream).to(proxy.url)

    assert b"tool-call-capture" in direct.body
    assert response.status == 200
    assert b"tool-call-capture" not in response.body
    assert [call["name"] for call in proxy.turn_of(text)["tool_calls"]] == ["search", "convert"]
