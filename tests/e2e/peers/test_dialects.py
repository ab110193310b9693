"""A real google-adk agent behind the proxy: its calls are read where that is asked for, and never kept from clients."""

from __future__ import annotations

import uuid

import pytest
from a2a_tool_capture.client import CaptureClient
from e2e.contracts import GetAgent, GetProxy

pytestmark = [pytest.mark.installs, pytest.mark.about("extension/a2a_tool_capture")]


async def test_the_proxy_reads_them_only_where_asked_and_clients_see_them_in_any_case(
    agent: GetAgent, proxy_of: GetProxy
) -> None:
    for dialects, expected in (((), 0), (("--dialects", "kagent,adk"), 1)):
        text = f"error {uuid.uuid4()}"
        proxy = proxy_of(agent("adk"), *dialects)
        async with CaptureClient(proxy.url, dialects=["adk"]) as client:
            turn = await client.send(text)
        assert [(call.name, call.error) for call in turn.tool_calls] == [("book_hotel", "hotel H-404 not found")]
        assert len(proxy.turn_of(text)["tool_calls"]) == expected
