"""An agent over gRPC that ends every call with the status OK and without a message, which A2A does not allow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from a2a_tool_capture.client import AgentError, CaptureClient
from support.grpc_proxy import running_proxy

SEND = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
PARAMS: dict[str, dict[str, Any]] = {"SendMessage": SEND, "GetTask": {"id": "x"}, "ListTasks": {}}


class _Silent(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    def service(self, handler_call_details: Any) -> Any:
        async def end(requests: AsyncIterator[bytes], context: Any) -> None:
            async for _ in requests:
                pass

        return grpc.stream_stream_rpc_method_handler(end)


@pytest.fixture
async def address() -> AsyncIterator[str]:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Silent(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def test_it_is_an_error_of_the_agent(address, tmp_path, caplog):
    async with (
        running_proxy(f"grpc://{address}", tmp_path, transcode=True, negotiate="always") as proxy,
        httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}, timeout=60) as http,
    ):
        for method, params in PARAMS.items():
            answer = await http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            error = answer.json()["error"]
            assert (error["code"], "without a message" in error["message"]) == (-32006, True)
        card = await http.get("/.well-known/agent-card.json")  # as of any agent without an extended card
        assert (card.status_code, card.json()["name"]) == (200, address)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_client_knows_it_as_an_agent_without_a_card(address, streaming):
    async with CaptureClient(f"grpc://{address}", streaming=streaming) as client:
        assert client.card.name == f"grpc://{address}"
        with pytest.raises(AgentError):
            await client.send("hi")
