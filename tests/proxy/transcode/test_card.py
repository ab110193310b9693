"""The card of a transcoded agent, clients that begin with it, agents of A2A 0.3, and what the settings refuse."""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import create_client
from a2a.client.client import ClientConfig
from a2a.types import AgentCard
from a2a_eval_proxy.check.rules.base import RuleStatus
from a2a_eval_proxy.errors import ConfigError, GrpcMissingError
from a2a_eval_proxy.net.file_watcher import FileWatch
from a2a_eval_proxy.relay.upstream import Upstream
from a2a_eval_proxy.settings import Settings
from a2a_eval_proxy.transcode import card_of
from a2a_eval_proxy.transcode.card import ConfiguredCard, offered
from agents.grpc_agent import grpc_agent
from agents.plain_grpc_agent import plain_grpc_agent
from agents.scenario_agent import AgentOptions
from agents.scenarios import BOTH
from support.checking import check, rules_with
from support.grpc_proxy import running_proxy
from support.transcripts import request

in_loop = pytest.mark.asyncio(loop_scope="module")
CARD = "/.well-known/agent-card.json"


async def get(url: str, path: str = CARD, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(headers={"A2A-Version": "1.0", **headers}) as http:
        return await http.get(url + path)


def interfaces(card: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(entry["protocolVersion"], entry["protocolBinding"], entry["url"]) for entry in card["supportedInterfaces"]}


@in_loop
async def test_the_card_is_the_agents_extended_one_with_the_proxys_addresses(agent, proxy):
    answer = await get(proxy.url)
    card = answer.json()
    assert (card["name"], card["capabilities"]["extendedAgentCard"]) == ("Scenario agent (extended)", True)
    assert interfaces(card) == {
        (version, binding, url)
        for version in ("1.0", "0.3")
        for binding, url in (
            ("JSONRPC", f"{proxy.url}/"),
            ("HTTP+JSON", proxy.url),
            ("GRPC", proxy.grpc_address),
        )
    }
    assert (card["url"], card["preferredTransport"]) == (f"{proxy.url}/", "JSONRPC")  # for clients of 0.3
    assert "private" in answer.headers["cache-control"]
    again = await get(proxy.url, **{"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
    extended = await get(proxy.url, "/extendedAgentCard")
    assert interfaces(extended.json()) == interfaces(card)


@in_loop
@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_clients_find_their_way_by_the_card(proxy, admin, binding):
    text = f"artifact {uuid.uuid4()}"
    config = ClientConfig(grpc_channel_factory=grpc.aio.insecure_channel, supported_protocol_bindings=[binding])
    client = await create_client(proxy.url, client_config=config)
    async for _ in client.send_message(request(text)):
        pass
    await client.close()
    await admin.post("/api/flush")
    turns = (await admin.get("/api/turns", params={"limit": 200})).json()["items"]
    (turn,) = [turn for turn in turns if turn["user_text"] == text]
    assert (turn["binding"], len(turn["tool_calls"])) == (binding, len(BOTH))


@in_loop
async def test_a_check_finds_what_it_finds_at_the_agent_itself(agent, proxy):
    """`check` speaks all interfaces of the card. The sample agent breaks some of the rules."""
    direct, transcoded = [await check(url, "artifact hi") for url in (agent.url, proxy.url)]
    for status in (RuleStatus.FAILED, RuleStatus.PASSED):
        assert rules_with(transcoded, status) == rules_with(direct, status)
    assert len(rules_with(transcoded, RuleStatus.PASSED)) > 15


@in_loop
async def test_without_grpc_of_its_own_the_proxy_offers_none(agent, tmp_path):
    async with running_proxy(f"grpc://{agent.address}", tmp_path, transcode=True, grpc=None) as proxy:
        card = (await get(proxy.url)).json()
    assert {binding for _, binding, _ in interfaces(card)} == {"JSONRPC", "HTTP+JSON"}


async def test_an_agent_without_a_card_gets_one_from_the_settings(tmp_path):
    file = tmp_path / "card.yaml"
    file.write_text("name: Weather\ndescription: Shows the weather\ncapabilities: {pushNotifications: true}\n")
    async with plain_grpc_agent() as agent:
        upstream = f"grpc://{agent.address}"
        async with running_proxy(upstream, tmp_path, transcode=True, grpc=None) as proxy:
            plain = (await get(proxy.url)).json()
            legacy = await get(proxy.url, "/.well-known/agent.json")
            refused = await get(proxy.url, "/extendedAgentCard")
        async with running_proxy(upstream, tmp_path, transcode=True, transcode_card=str(file)) as proxy:
            card = (await get(proxy.url)).json()
            settings = Settings(upstream=upstream, transcode=True, transcode_card=str(file))
            assert (await card_of(settings, Upstream(settings, FileWatch()))())["name"] == "Weather"
            file.write_text('{"name": "Sun"}')
            proxy.serving.files.check()
            assert (await get(proxy.url)).json()["name"] == "Sun"
    assert (plain["name"], plain["version"], plain["capabilities"]) == (agent.address, "unknown", {"streaming": True})
    assert plain["skills"][0]["tags"]
    assert interfaces(plain) == interfaces(legacy.json())
    assert refused.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
    assert (card["name"], card["description"]) == ("Weather", "Shows the weather")
    assert card["capabilities"] == {"pushNotifications": True}


@pytest.mark.parametrize("content", ["[]", "{", "name: [1]", "skills: yes", "capabilities: {streaming: 7}"])
async def test_a_card_that_is_none_stops_the_proxy(tmp_path, content):
    file = tmp_path / "card.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"transcode_card: .*card.json is not an agent card: "):
        async with running_proxy("grpc://127.0.0.1:9", tmp_path, transcode=True, transcode_card=str(file)):
            pass


def test_fields_that_no_card_has_are_named(tmp_path, caplog):
    file = tmp_path / "card.json"
    file.write_text('{"nam": "x", "version": "2", "default_input_modes": ["text/plain"], "preferredTransport": "GRPC"}')
    settings = Settings(upstream="grpc://127.0.0.1:9", transcode=True, transcode_card=str(file))
    assert ConfiguredCard(settings, FileWatch()).content["version"] == "2"
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "card.json: no fields of an agent card of A2A 1.0, left out: nam, preferredTransport"
    )


async def test_a_card_that_is_missing_stops_the_proxy(tmp_path):
    with pytest.raises(ConfigError, match=r"transcode_card: .*nothing.json cannot be read: No such file"):
        async with running_proxy(
            "grpc://127.0.0.1:9", tmp_path, transcode=True, transcode_card=str(tmp_path / "nothing.json")
        ):
            pass


async def test_an_agent_of_0_3_is_offered_to_clients_of_both_versions(tmp_path):
    """By the conversions of a2a-sdk. Its only service is `a2a.v1.A2AService`, which has no ListTasks."""
    async with (
        grpc_agent(AgentOptions(), versions=("0.3",)) as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path, transcode=True) as proxy,
        httpx.AsyncClient(base_url=proxy.url) as http,
        httpx.AsyncClient(base_url=proxy.admin_url) as admin,
    ):
        card = (await get(proxy.url)).json()
        assert card["name"] == "Scenario agent (extended)"
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "artifact new"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        new = (await http.post("/", json=body, headers={"A2A-Version": "1.0"})).json()
        message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "artifact old"}]}
        old = (await http.post("/", json={**body, "method": "message/send", "params": {"message": message}})).json()
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "chunks stream"}]}
        stream = await http.post("/message:stream", json={"message": message}, headers={"A2A-Version": "1.0"})
        missing = (await http.get("/tasks/nothing", headers={"A2A-Version": "1.0"})).json()
        listed = (await http.get("/tasks", headers={"A2A-Version": "1.0"})).json()
        await admin.post("/api/flush")
        turns = (await admin.get("/api/turns")).json()["items"]
    assert new["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert old["result"]["status"]["state"] == "completed"
    assert "TASK_STATE_COMPLETED" in stream.text.splitlines()[-2]
    assert missing["error"]["details"][0]["reason"] == "TASK_NOT_FOUND"
    assert listed["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
    assert {turn["user_text"]: len(turn["tool_calls"]) for turn in turns} == {
        "artifact new": len(BOTH),
        "artifact old": len(BOTH),
        "chunks stream": len(BOTH),
    }
    assert "tool-call-capture" not in json.dumps([new, old]) + stream.text
    services = {call.path.split("/")[1] for call in agent.seen[-2:]}
    assert services == {"a2a.v1.A2AService", "lf.a2a.v1.A2AService"}  # ListTasks was tried in both


def test_the_card_of_a_tenant_names_it():
    """Clients send the tenant of the interface that they use (A2A 1.0, section 8.3.2)."""
    card = AgentCard(supported_interfaces=[{"url": "x", "protocol_binding": "GRPC", "tenant": "acme"}])
    made = offered(card, Settings(upstream="grpc://h:1", transcode=True))
    assert {entry.tenant for entry in made.supported_interfaces} == {"acme"}


async def test_without_grpcio_the_error_says_what_to_install(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("a2a_eval_proxy.transcode.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(GrpcMissingError, match=r"--transcode needs grpcio: pip install 'a2a-eval-proxy\[grpc\]'"):
        async with running_proxy("grpc://127.0.0.1:9", tmp_path, transcode=True, grpc=None):
            pass


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"upstream": "http://h:1", "transcode": True}, "transcode: is for an agent that has only gRPC; expected"),
        ({"upstream": "grpc://h:1", "grpc": "127.0.0.1:0", "transcode_card": "x"}, "transcode_card: .*--transcode"),
        ({"upstream": "grpc://h:1"}, "--transcode to offer it over JSON-RPC and HTTP"),
    ],
)
def test_settings_that_do_not_fit(settings, problem):
    with pytest.raises(ConfigError, match=problem):
        Settings(**settings)
