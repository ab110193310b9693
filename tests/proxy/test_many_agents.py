"""Several agents of a2a-sdk behind one proxy: each request, card, turn and result stays with its agent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import grpc.aio
import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, create_client
from a2a.types import AgentCard, Message, Part, Role, SendMessageRequest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.features.check.client import ProbeClient
from a2a_eval_proxy.features.check.dialogue import probe_agent
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import METADATA_KEY, URI
from agents.grpc_agent import UNLIMITED, GrpcAgent, grpc_agent
from agents.replay_agent import ReplayAgent, json_answer
from agents.scenario_agent import RPC_PATH
from h2.events import StreamEnded, StreamReset
from support.checking import check
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.raw_http2 import RawClient, deliver

NAMES = ("orders", "refunds")
HOSTS = {name: f"{name}.test" for name in NAMES}


class Many(NamedTuple):
    """A proxy before several agents, and clients of its ports."""

    proxy: RunningProxy
    agents: dict[str, GrpcAgent]
    http: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def turns(self, **query: Any) -> list[dict[str, Any]]:
        await self.admin.post("/api/flush")
        """As they began: each agent has a thread of its own that stores."""
        items = (await self.admin.get("/api/turns", params=query)).json()["items"]
        return sorted(items, key=itemgetter("started_at"))

    async def card(self, name: str) -> AgentCard:
        return await A2ACardResolver(self.http, f"{self.proxy.url}/agents/{name}").get_agent_card()


def settings(folder: Path, agents: dict[str, Any], **others: Any) -> Settings:
    ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False}
    return load(Settings, {**ports, "store": str(folder / "turns.db"), "run": "day", "agents": agents, **others})


@asynccontextmanager
async def many_agents(folder: Path, own: dict[str, dict[str, Any]] | None = None, **others: Any) -> AsyncIterator[Many]:
    async with AsyncExitStack() as stack:
        agents = {name: await stack.enter_async_context(grpc_agent()) for name in NAMES}
        more = own or {name: {} for name in NAMES}
        given = {name: {"upstream": agent.url, "hosts": HOSTS[name], **more[name]} for name, agent in agents.items()}
        proxy = await stack.enter_async_context(run_proxy(settings(folder, given, grpc="127.0.0.1:0", **others)))
        http = await stack.enter_async_context(httpx.AsyncClient())
        admin = await stack.enter_async_context(httpx.AsyncClient(base_url=proxy.admin_url))
        yield Many(proxy, agents, http, admin)


async def send(card: AgentCard, binding: str, text: str, http: httpx.AsyncClient, proxy: RunningProxy) -> None:
    """One message of a2a-sdk's client over this binding, as the card says where."""

    def channel(address: str) -> grpc.aio.Channel:
        # the names of the test do not resolve: the connection is to the proxy, the authority that of the card
        return grpc.aio.insecure_channel(str(proxy.grpc_address), [*UNLIMITED, ("grpc.default_authority", address)])

    config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], grpc_channel_factory=channel)
    client = await create_client(card, config)
    message = Message(message_id=text, role=Role.ROLE_USER, parts=[Part(text=text)])
    async for _ in client.send_message(SendMessageRequest(message=message)):
        pass


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_each_agent_gets_its_own_messages_on_every_binding(tmp_path: Path, binding: str) -> None:
    async with many_agents(tmp_path) as many:
        for name in NAMES:
            await send(await many.card(name), binding, f"chunks for {name}", many.http, many.proxy)
        turns = await many.turns()
        assert [(turn["agent_name"], turn["user_text"], turn["run"]) for turn in turns] == [
            (name, f"chunks for {name}", f"day-{name}") for name in NAMES
        ]
        assert [turn["agent"] for turn in turns] == [many.agents[name].url for name in NAMES]
        assert all(turn["binding"] == binding and turn["tool_calls"] for turn in turns)


async def test_every_address_in_a_card_leads_back_and_a_host_leads_to_its_agent(tmp_path: Path) -> None:
    async with many_agents(tmp_path) as many:
        port = str(many.proxy.grpc_address).rpartition(":")[2]
        for name in NAMES:
            card = await many.card(name)
            addresses = {item.protocol_binding: item.url for item in card.supported_interfaces}
            assert addresses.pop("GRPC") == f"{HOSTS[name]}:{port}"
            assert all(url.startswith(f"{many.proxy.url}/agents/{name}/") for url in addresses.values()), addresses

            host = {"host": f"{HOSTS[name].upper()}:{'80' if name == 'orders' else ''}"}
            card = (await many.http.get(f"{many.proxy.url}/.well-known/agent-card.json", headers=host)).json()
            addresses = [urlsplit(item["url"]) for item in card["supportedInterfaces"]]
            assert {at.hostname for at in addresses if at.scheme == "http"} == {HOSTS[name]}
            assert not any(at.path.startswith("/agents") for at in addresses)


async def test_a_call_with_two_hosts_reaches_no_agent(tmp_path: Path) -> None:
    def call(name: bytes, value: bytes) -> Any:
        with RawClient(str(many.proxy.grpc_address)) as client:  # its authority is `agent`
            stream = client.begin(b"/agents/orders/test.Service/Any", [(name, value)], end=True)
            return client.until(stream, StreamReset, StreamEnded)[-1]

    async with many_agents(tmp_path) as many:
        for name in (b":authority", b"host"):
            assert isinstance(await asyncio.to_thread(call, name, b"refunds.test"), StreamReset)
            assert isinstance(await asyncio.to_thread(call, name, b"agent"), StreamEnded)


async def test_the_list_has_no_card_that_a_client_got_with_its_credentials(tmp_path: Path) -> None:
    with ReplayAgent() as agent:
        agent.card = json_answer({"name": "for all"})
        async with run_proxy(settings(tmp_path, {"orders": agent.url})) as proxy, httpx.AsyncClient() as http:

            async def listed() -> Any:
                (agent,) = (await http.get(f"{proxy.url}/agents")).json()["agents"]
                assert (agent["name"], agent["url"]) == ("orders", f"{proxy.url}/agents/orders")
                return agent["card"]

            while (card := await listed()) is None:
                await asyncio.sleep(0)
            assert card["name"] == "for all"
            agent.card = json_answer({"name": "for one"})
            url, login = f"{proxy.url}/agents/orders/.well-known/agent-card.json", {"authorization": "Bearer one"}
            assert (await http.get(url, headers=login)).json()["name"] == "for one"
            assert (await listed())["name"] == "for all"


async def test_no_path_leads_out_of_that_of_the_agent(tmp_path: Path) -> None:
    def get(path: str) -> bytes:
        data = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        return deliver(address, data.encode()).partition(b"\r\n")[0]

    with ReplayAgent() as agent:
        agents = {"below": {"upstream": f"{agent.url}/base", "hosts": "below.test"}, "root": agent.url}
        async with run_proxy(settings(tmp_path, agents)) as proxy:
            address = proxy.url.removeprefix("http://")
            for up in ("..", "%2e.", "a/%2E%2e", "a%2f..%2fb", "..\\b", "..;x"):
                refused = await asyncio.to_thread(get, f"/agents/below/{up}/x")
                assert refused == b"HTTP/1.1 400 Bad Request", up
            for path in ("/agents/root/../x", "/agents/below/..x", "/agents/below/x...?a=/../"):
                agent.prepare(json_answer({}))
                assert await asyncio.to_thread(get, path) == b"HTTP/1.1 200 OK", path


async def ask(
    proxy: RunningProxy, agents: dict[str, ReplayAgent], name: str, method: str, state: str, **params: Any
) -> None:
    """A request to an agent, whose task `T` is in this state then."""
    task = {"id": "T", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}
    result = task if method == "GetTask" else {"task": task}
    agents[name].prepare(json_answer({"jsonrpc": "2.0", "id": 1, "result": result}))
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx.AsyncClient() as http:
        await http.post(f"{proxy.url}/agents/{name}", json=request, headers={"a2a-version": "1.0"})


@pytest.fixture
def replaying() -> Iterator[dict[str, ReplayAgent]]:
    with ReplayAgent() as orders, ReplayAgent() as refunds:
        yield {"orders": orders, "refunds": refunds}


async def test_an_agent_is_added_by_a_restart_which_open_turns_survive(
    tmp_path: Path, replaying: dict[str, ReplayAgent]
) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "order"}]}
    sent = {"message": message, "configuration": {"returnImmediately": True}}
    urls = {name: agent.url for name, agent in replaying.items()}
    async with run_proxy(settings(tmp_path, {"orders": urls["orders"]})) as proxy:
        await ask(proxy, replaying, "orders", "SendMessage", "WORKING", **sent)
    async with run_proxy(settings(tmp_path, urls)) as proxy:
        await ask(proxy, replaying, "orders", "GetTask", "COMPLETED", id="T")
        await ask(proxy, replaying, "refunds", "SendMessage", "COMPLETED", **sent)
        await proxy.flush(PATIENCE_S)
        turns = sorted((turn["agent_name"], turn["state"]) for turn in await proxy.turns())
    assert turns == [(name, "TASK_STATE_COMPLETED") for name in NAMES]


@pytest.mark.parametrize(("own", "status"), [({"upstream_header": {"Authorization": "Bearer s"}}, 421), ({}, 200)])
async def test_pages_of_other_sites_get_no_list_of_agents_with_credentials(
    tmp_path: Path, own: dict[str, Any], status: int
) -> None:
    async with many_agents(tmp_path, own={"orders": own, "refunds": {}}) as many:
        listed = await many.http.get(f"{many.proxy.url}/agents", headers={"host": "rebound.example"})
        assert listed.status_code == status


async def test_the_wire_of_a_turn_has_nothing_of_another_agent_with_a_task_of_the_same_id(
    tmp_path: Path, replaying: dict[str, ReplayAgent]
) -> None:
    agents = {"orders": {"upstream": replaying["orders"].url, "redact": ["email"]}, "refunds": replaying["refunds"].url}
    async with run_proxy(settings(tmp_path, agents)) as proxy:
        for name in ("refunds", "orders"):
            message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": f"for ann@{name}.example"}]}
            await ask(proxy, replaying, name, "SendMessage", "WORKING", message=message)
        for name in ("orders", "refunds"):
            await ask(proxy, replaying, name, "GetTask", "COMPLETED", id="T")
        await proxy.flush(PATIENCE_S)
        (turn,) = [turn for turn in await proxy.turns() if turn["agent_name"] == "refunds"]
        async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:
            wire = await admin.get(f"/api/turns/{turn['turn_id']}/wire")
    assert len(wire.json()["exchanges"]) == 2
    assert "ann@refunds.example" in wire.text
    assert "ann@orders.example" not in wire.text


async def test_two_agents_with_a_task_of_the_same_id_have_nothing_in_common(
    tmp_path: Path, replaying: dict[str, ReplayAgent]
) -> None:
    """Many requests in turns, of a caller who asks one agent alone for the calls of its task."""
    own = {name: {"upstream": agent.url, "upstream_header": {"X-Key": name}} for name, agent in replaying.items()}
    async with run_proxy(settings(tmp_path, own, negotiate="always")) as proxy, httpx.AsyncClient() as http:
        for name, agent in replaying.items():
            message = {"messageId": name, "role": "ROLE_USER", "parts": [{"text": name}]}
            await ask(proxy, replaying, name, "SendMessage", "WORKING", message=message)
            calls = {"extensions": [URI], "metadata": {METADATA_KEY: []}}
            artifact = {"artifactId": "a", "parts": [{"text": name}], **calls}
            task = {"id": "T", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
            agent.prepare(json_answer({"jsonrpc": "2.0", "id": 1, "result": task}))
        request = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "T"}}
        headers = {"a2a-version": "1.0", "authorization": "Bearer one"}
        for number in range(80):
            name = NAMES[number % 2]
            asks = {"a2a-extensions": URI} if number == 0 else {}
            answer = await http.post(f"{proxy.url}/agents/{name}", json=request, headers=headers | asks)
            (shown,) = answer.json()["result"]["artifacts"]
            assert (shown["parts"][0]["text"], METADATA_KEY in shown.get("metadata", {})) == (name, name == "orders")
        await proxy.flush(PATIENCE_S)
        turns = [(turn["agent_name"], turn["user_text"], turn["response_text"]) for turn in await proxy.turns()]
    assert sorted(turns) == [(name, name, name) for name in NAMES]
    for name, agent in replaying.items():
        assert [value for one in agent.received for key, value in one.headers if key == "x-key"] == [name] * 40


async def test_who_deletes_a_webhook_leaves_that_of_another_agent_with_the_same_ids(
    tmp_path: Path, replaying: dict[str, ReplayAgent]
) -> None:
    agents = {name: agent.url for name, agent in replaying.items()}
    ids = {"taskId": "T", "id": "c"}
    with held_ports(2) as (port, nobody):
        push = {"push_url": f"http://127.0.0.1:{port}/push", "push_listen": f"127.0.0.1:{port}"}
        async with run_proxy(settings(tmp_path, agents, **push, push_allow=["127.0.0.1"])) as proxy:
            for name in NAMES:
                url = f"http://127.0.0.1:{nobody}/"
                await ask(proxy, replaying, name, "CreateTaskPushNotificationConfig", "WORKING", url=url, **ids)
            relayed = [json.loads(agent.received[0].body)["params"]["url"] for agent in replaying.values()]
            await ask(proxy, replaying, "orders", "DeleteTaskPushNotificationConfig", "WORKING", **ids)
            async with httpx.AsyncClient() as http:
                assert [(await http.post(url, json={})).status_code for url in relayed] == [404, 502]


@pytest.mark.parametrize("path", ["/", "/agents", "/agents/nobody", "/agents/ORDERS/rpc", "/agents/%6frders/rpc"])
async def test_what_is_for_no_agent_is_refused_in_the_shape_of_its_binding(tmp_path: Path, path: str) -> None:
    async with many_agents(tmp_path) as many:
        request = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {}}
        refused = await many.http.post(many.proxy.url + path, json=request)
        error = refused.json()
        assert (refused.status_code, error["id"]) == (404, 7)
        assert error["error"]["data"][0]["reason"] == "AGENT_NOT_FOUND"
        told = json.dumps(error)
        assert not any(agent.url in told or name in told for name, agent in many.agents.items())


async def test_a_path_leads_calls_to_their_agent_and_one_for_no_agent_is_refused(tmp_path: Path) -> None:
    async with many_agents(tmp_path) as many, grpc.aio.insecure_channel(str(many.proxy.grpc_address)) as channel:
        call = channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        for name, agent in many.agents.items():
            call = channel.unary_unary(f"/agents/{name}/lf.a2a.v1.A2AService/GetExtendedAgentCard")
            assert await call(b"")
            assert [seen.path for seen in agent.seen] == ["/lf.a2a.v1.A2AService/GetExtendedAgentCard"]


async def test_a_check_is_of_the_agent_in_the_url_and_over_grpc_of_that_in_the_header_host(tmp_path: Path) -> None:
    own: dict[str, dict[str, Any]] = {"orders": {"hosts": "localhost"}, "refunds": {}}
    async with many_agents(tmp_path, own=own) as many:
        report = await check(f"{many.proxy.url}/agents/orders", "chunks please")
        checked = {str(one.interface) for one in report.record.conversations}
        assert {"JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 1.0", "GRPC 0.3"} <= checked
        seen = {name: len(agent.seen) for name, agent in many.agents.items()}
        assert seen["orders"] > 10
        assert seen["refunds"] == 0
        async with ProbeClient({"Host": HOSTS["refunds"]}, 60.0) as client:
            url = f"grpc://{many.proxy.grpc_address}"
            record = await probe_agent(client, url, ["chunks please"], lambda step: None)
        assert not record.card.missing
        assert len(many.agents["orders"].seen) == seen["orders"]


SUITE = """
suite: {name}
evaluators: [{{tool_trajectory: {{mode: strict, threshold: 1.0}}}}]
cases:
  - id: {name}
    turns: [{{user: chunks please, expect: {{tool_calls: {calls}}}}}]
"""
BOTH = (
    "[{name: search, arguments: {q: weather Berlin}, result: {temp_c: 21.0}}, "
    "{name: convert, arguments: {c: 21.0}, result: {f: 69.8}}]"
)


async def say(many: Many, name: str, text: str, **headers: str) -> None:
    message = {"messageId": name, "contextId": "same", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    url = f"{many.proxy.url}/agents/{name}{RPC_PATH}"
    named = {"a2a-version": "1.0", **{key.replace("_", "-"): value for key, value in headers.items()}}
    assert "result" in (await many.http.post(url, json=body, headers=named)).json()


async def test_suites_and_rules_are_those_of_the_agent(tmp_path: Path) -> None:
    own: dict[str, dict[str, Any]] = {"orders": {"redact": ["email"]}, "refunds": {}}
    for name, calls in (("orders", BOTH), ("refunds", "[]")):
        (tmp_path / f"{name}.yaml").write_text(SUITE.format(name=name, calls=calls))
        own[name]["suite"] = str(tmp_path / f"{name}.yaml")
    async with many_agents(tmp_path, own=own) as many:
        for name in NAMES:
            await say(many, name, "chunks please")
            await say(many, name, "chunks for ann@example.com")
        turns = await many.turns()
        wires = [(await many.admin.get(f"/api/turns/{turn['turn_id']}/wire")).text for turn in turns]
    assert [turn["case_id"] for turn in turns] == ["orders", "orders", "refunds", "refunds"]
    assert [turn["evaluations"][0]["status"] for turn in turns][::2] == ["passed", "failed"]
    assert ["ann@example.com" in turn["user_text"] for turn in turns] == [False, False, False, True]
    assert ["ann@example.com" in wire for wire in wires] == [False, False, False, True]


async def test_a_conversation_of_one_agent_has_not_the_case_of_another(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE.format(name="one", calls="[]"))
    async with many_agents(tmp_path, suite=str(tmp_path / "suite.yaml")) as many:
        await say(many, "orders", "chunks please", a2a_eval_run="both")
        await say(many, "refunds", "chunks of something else", a2a_eval_run="both")
        turns = await many.turns(run="both")
    assert [(turn["agent_name"], turn["case_id"]) for turn in turns] == [("orders", "one"), ("refunds", None)]


async def test_turns_and_metrics_can_be_had_by_agent(tmp_path: Path) -> None:
    async with many_agents(tmp_path) as many:
        for name in NAMES:
            await say(many, name, "chunks please")
        assert [turn["agent_name"] for turn in await many.turns(agent="refunds")] == ["refunds"]
        assert await many.turns(agent="nobody") == []
        page = (await many.admin.get("/", params={"agent": "orders"})).text
        metrics = (await many.admin.get("/metrics")).text
    assert page.count('class="case-of') == 1
    for name in NAMES:
        assert f'a2a_eval_proxy_agent_requests_total{{agent="{name}"}} 1.0' in metrics
        assert f'a2a_eval_proxy_agent_turns_total{{agent="{name}"}} 1.0' in metrics
    assert "nobody" not in metrics


async def test_a_file_that_an_agent_names_and_that_is_missing_stops_the_start_by_its_name(tmp_path: Path) -> None:
    given = settings(tmp_path, {"orders": "http://a", "refunds": {"upstream": "http://b", "suite": "no.yaml"}})
    with pytest.raises(ConfigError, match=r"agent refunds: no\.yaml: cannot be read"):
        async with run_proxy(given):
            pass
