"""Agents that have only gRPC, and TLS on both sides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.types import AgentCard, GetExtendedAgentCardRequest, a2a_pb2_grpc
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.settings.parts import TlsFilesOptions
from a2a_eval_proxy.settings.settings import Settings
from agents.grpc_agent import grpc_agent
from agents.scenario_agent import AgentOptions
from agents.scenarios import BOTH
from support.certificates import Authority, Pair
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S

ECHO = "/test.Service/UnaryUnary"


async def say(address: str, text: str = "artifact hi", channel: Any = None, **metadata: str) -> Any:
    async with channel or grpc.aio.insecure_channel(address) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)
        request = a2a_pb2_grpc.a2a__pb2.SendMessageRequest(
            message={"message_id": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
        )
        return await stub.SendMessage(request, metadata=[("a2a-version", "1.0"), *metadata.items()])


async def turns(proxy: Any) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:
        await admin.post("/api/flush")
        items: list[dict[str, Any]] = (await admin.get("/api/turns")).json()["items"]
        return items


@pytest.mark.parametrize(("negotiate", "declared"), [("declared", True), ("declared", False), ("always", False)])
async def test_an_agent_that_has_only_grpc(tmp_path, negotiate, declared):
    """Whether its extended card declares the extension decides, as the public card does of others."""
    async with (
        grpc_agent(AgentOptions(declared=declared)) as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path, negotiate=negotiate) as proxy,
    ):
        await say(proxy.grpc_address)
        (turn,) = await turns(proxy)
        asked = declared or negotiate == "always"
        assert [call["name"] for call in turn["tool_calls"]] == ([call["name"] for call in BOTH] if asked else [])
        assert (turn["binding"], turn["capture"]["declared"]) == ("GRPC", declared)
        async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            card: AgentCard = await stub.GetExtendedAgentCard(
                GetExtendedAgentCardRequest(), metadata=[("a2a-version", "1.0")]
            )
        assert {entry.url for entry in card.supported_interfaces} == {proxy.grpc_address}


async def test_without_a_card_the_agent_works_all_the_same(tmp_path):
    """As kagent, whose gRPC service has no extended card."""
    async with (
        grpc_agent(AgentOptions(declared=False, extended=False)) as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path, negotiate="always") as proxy,
    ):
        await say(proxy.grpc_address)
        (turn,) = await turns(proxy)
        assert len(turn["tool_calls"]) == len(BOTH)


async def test_http_clients_of_such_an_agent_get_an_error_that_says_so(tmp_path):
    async with (
        grpc_agent() as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path) as proxy,
        httpx.AsyncClient(base_url=proxy.url) as http,
    ):
        card = await http.get("/.well-known/agent-card.json")
        rpc = await http.post("/", json={"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {}})
    problem = (
        f"the agent at grpc://{agent.address} has no HTTP interface; use gRPC, at {proxy.grpc_address} of the proxy"
    )
    assert (card.status_code, rpc.status_code, rpc.json()["id"]) == (502, 502, 7)
    assert rpc.json()["error"]["data"][0]["reason"] == "NO_HTTP_INTERFACE"
    assert problem in card.json()["error"]["message"]
    assert problem in rpc.json()["error"]["message"]


def test_an_agent_that_has_only_grpc_needs_a_port_for_it():
    with pytest.raises(ConfigError, match="set --grpc"):
        Settings(upstream="grpc://127.0.0.1:1")


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────────────────────


def server(pair: Pair, clients: Authority | None = None) -> grpc.ServerCredentials:
    root = clients.ca.read_bytes() if clients else None
    keys = [(pair.key.read_bytes(), pair.cert.read_bytes())]
    return grpc.ssl_server_credentials(keys, root, require_client_auth=clients is not None)


async def echo(channel: Any) -> bytes | grpc.StatusCode:
    async with channel:
        try:
            answer: bytes = await channel.unary_unary(ECHO)(b"x", timeout=PATIENCE_S)
            return answer
        except grpc.aio.AioRpcError as error:
            return error.code()


async def test_the_certificate_of_the_agent_is_checked(tmp_path: Path):
    theirs, other = Authority(tmp_path / "theirs"), Authority(tmp_path / "other")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(other.ca.read_bytes())
    async with (
        grpc_agent(credentials=server(theirs.issue("agent"))) as agent,
        running_proxy(f"grpcs://{agent.address}", tmp_path, upstream_tls=TlsFilesOptions(ca=str(trusted))) as proxy,
    ):
        assert await echo(grpc.aio.insecure_channel(proxy.grpc_address)) is grpc.StatusCode.UNAVAILABLE
        trusted.write_bytes(theirs.ca.read_bytes())
        proxy.control.serving.files.check()
        assert await echo(grpc.aio.insecure_channel(proxy.grpc_address)) == b"x"
