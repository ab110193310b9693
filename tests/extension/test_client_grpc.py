"""The client over gRPC: named by a card, or by the URL of an agent that has nothing else."""

from __future__ import annotations

import ssl
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from a2a.server.routes import create_agent_card_routes
from a2a.types import AgentCard, AgentInterface
from a2a_tool_capture.agent_connection import AgentConnection
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.client_tls import ClientTls
from a2a_tool_capture.errors import AgentError, AgentUnreachableError, ConfigurationError
from agents.grpc_agent import GrpcAgent, grpc_agent
from agents.scenario_agent import AgentOptions
from agents.scenarios import BOTH, SCENARIOS
from agents.serving import ServerThread
from starlette.applications import Starlette
from support.certificates import Authority

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent():
    async with grpc_agent() as agent:
        yield agent


def names(turn: Any) -> list[str]:
    return [call.name for call in turn.tool_calls]


@pytest.mark.parametrize("scenario", ["artifact", "chunks-late", "message"])
@pytest.mark.parametrize("options", [{}, {"streaming": False}], ids=str)
@pytest.mark.parametrize("by", ["card", "address"])
async def test_a_turn(agent: GrpcAgent, scenario: str, options: dict[str, Any], by: str) -> None:
    url = {"url": agent.url, "binding": "GRPC"} if by == "card" else {"url": f"grpc://{agent.address}"}
    async with CaptureClient(**url, **options) as client:
        turn = await client.send(f"{scenario} hi")
        assert client.declared
    expected = SCENARIOS[scenario]
    assert (turn.binding, turn.protocol_version) == ("GRPC", "1.0")
    assert turn.text == expected.text.replace("{text}", f"{scenario} hi")
    assert names(turn) == [call["name"] for call in expected.expected_calls(streamed=not options)]


async def test_headers_are_metadata(agent: GrpcAgent) -> None:
    del agent.seen[:]
    async with CaptureClient(f"grpc://{agent.address}", headers={"Authorization": "Bearer t", "X-B": "c"}) as client:
        await client.send("message hi")
    assert len(agent.seen) == 2
    for call in agent.seen:
        assert {("authorization", "Bearer t"), ("x-b", "c")} <= set(map(tuple, call.metadata))


@pytest.mark.parametrize(
    ("served", "version", "declared"),
    [
        pytest.param({"options": AgentOptions(extended=False)}, "1.0", False, id="without a card"),
        pytest.param({"versions": ("0.3",)}, "0.3", True, id="of 0.3"),
    ],
)
async def test_an_agent(served: dict[str, Any], version: str, declared: bool) -> None:
    async with grpc_agent(**served) as agent, CaptureClient(f"grpc://{agent.address}") as client:
        turn = await client.send("artifact hi")
        assert (client.declared, client.card.capabilities.streaming) == (declared, True)
    assert turn.protocol_version == version
    assert names(turn) == [call["name"] for call in BOTH]


async def test_errors_name_their_cause(agent: GrpcAgent) -> None:
    async with CaptureClient(f"grpc://{agent.address}") as client:
        with pytest.raises(AgentError, match="TaskNotFoundError"):
            await client.send("artifact hi", task_id=str(uuid.uuid4()))
    with pytest.raises(AgentUnreachableError, match=r"grpc://127\.0\.0\.1:9 cannot be reached: .*refused"):
        async with CaptureClient("grpc://127.0.0.1:9"):
            pass
    with pytest.raises(ConfigurationError, match="has only GRPC"):
        CaptureClient("grpc://127.0.0.1:9", binding="JSONRPC")


async def test_an_agent_that_asks_for_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, own = authority.issue("agent"), authority.issue("client")
    files = [(pair.key.read_bytes(), pair.cert.read_bytes())]
    credentials = grpc.ssl_server_credentials(files, authority.ca.read_bytes(), require_client_auth=True)
    tls = ClientTls(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_verify_locations(authority.ca)
    async with grpc_agent(credentials=credentials) as agent:
        with pytest.raises(AgentUnreachableError):
            async with CaptureClient(f"grpcs://{agent.address}", tls=tls):
                pass
        tls.load_cert_chain(own.cert, own.key)
        async with CaptureClient(f"grpcs://{agent.address}", tls=tls) as client:
            assert (await client.send("message hi")).text == "echo: message hi"


async def test_channels_end_with_the_connection() -> None:
    connection = AgentConnection("grpc://127.0.0.1:9", {}, None, 1.0)
    transport: Any = connection.grpc_transport(AgentInterface(url="127.0.0.1:9", protocol_version="1.0"), None)
    await connection.close()
    assert transport.channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN


async def test_a_certificate_that_grpc_cannot_present(tmp_path: Path) -> None:
    own = Authority(tmp_path).issue("client", password="secret")
    tls = ClientTls(ssl.PROTOCOL_TLS_CLIENT)
    tls.load_cert_chain(own.cert, own.key, "secret")
    with pytest.raises(ConfigurationError, match=r"client\.key: gRPC cannot read an encrypted key"):
        async with CaptureClient("grpcs://127.0.0.1:9", tls=tls):
            pass
    own.key.unlink()
    with pytest.raises(ConfigurationError, match=r"client\.key: No such file"):
        async with CaptureClient("grpcs://127.0.0.1:9", tls=tls):
            pass


@pytest.mark.parametrize("url", ["a", "http://a/b", "", "/a2a"])
async def test_an_address_that_is_none(url: str) -> None:
    card = AgentCard(name="a")
    card.supported_interfaces.add(url=url, protocol_binding="GRPC", protocol_version="1.0")
    app = Starlette(routes=create_agent_card_routes(card))
    with ServerThread(lambda _: app) as server, pytest.raises(AgentError, match="expected HOST:PORT"):
        await CaptureClient(server.url).__aenter__()
