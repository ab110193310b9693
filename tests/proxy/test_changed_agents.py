"""Agents that are added, changed and removed while the proxy runs: no response is dropped, no turn lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, PrivacyOfAll
from a2a_eval_proxy.settings import Settings
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.store import StoreError
from a2a_eval_proxy.telemetry.turn_listener import TurnListener
from a2a_eval_proxy.turn import Turn
from agents.scenarios import METADATA_KEY, URI
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.patience import PATIENCE_S
from support.postgres_server import PostgresServer
from support.prefork import COMMAND
from support.processes import ChildProcess


@pytest.fixture(scope="module")
def agents() -> Iterator[tuple[str, str]]:
    with stepwise_agent() as one, stepwise_agent() as other:
        yield one.url, other.url


class Closed(TurnListener):
    """The words of the user of each turn, as often as it was closed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def ended(self, turn: Turn) -> None:
        self.texts.append(turn.user_text)


class Folder:
    """A directory with a file for each agent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def put(self, name: str, upstream: str, **others: Any) -> None:
        """As Kubernetes does it for a ConfigMap: the whole file at once."""
        part = self.path / f".{name}"
        part.write_text(json.dumps({"upstream": upstream, **others}))
        part.replace(self.path / f"{name}.yaml")

    def remove(self, name: str) -> None:
        (self.path / f"{name}.yaml").unlink()


@asynccontextmanager
async def running(folder: Folder, of_all: PrivacyOfAll | None = None, **others: Any) -> AsyncIterator[RunningProxy]:
    ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": f"{folder.path}.db", "run": "day"}
    async with run_proxy(load(Settings, {**ports, "agents_dir": str(folder.path), **others}), of_all=of_all) as proxy:
        yield proxy


async def looked(proxy: RunningProxy) -> None:
    """The proxy has read its files, and serves what they say."""
    await asyncio.to_thread(proxy.files.check)
    while proxy._under_way:
        await asyncio.wait(proxy._under_way)


def message(text: str, *, stream: bool = False) -> dict[str, Any]:
    params = {"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage" if stream else "SendMessage", "params": params}


def answers(url: str, name: str, text: str) -> int:
    headers = {"a2a-version": "1.0"}
    address = f"{url}/agents/{name}{RPC_PATH}"
    return httpx.post(address, json=message(text), headers=headers, trust_env=False, timeout=PATIENCE_S).status_code


def asked(url: str, request: dict[str, Any], more: dict[str, str] | None = None) -> dict[str, Any]:
    """The result of a request to the agent `refunds`, on a connection of its own."""
    address, headers = f"{url}/agents/refunds{RPC_PATH}", {"a2a-version": "1.0", **(more or {})}
    found = httpx.post(address, json=request, headers=headers, trust_env=False, timeout=PATIENCE_S)
    result: dict[str, Any] = found.json()["result"]
    return result


async def said(proxy: RunningProxy, name: str, text: str) -> int:
    return await asyncio.to_thread(answers, proxy.url, name, text)


async def test_agents_come_and_go(agents: tuple[str, str], tmp_path: Path) -> None:
    folder = Folder(tmp_path / "agents")
    async with running(folder) as proxy:
        assert await said(proxy, "orders", "done") == 404
        folder.put("orders", agents[0])
        await looked(proxy)
        assert await said(proxy, "orders", "done") == 200
        folder.put("orders", agents[1])
        folder.put("refunds", agents[0])
        await looked(proxy)
        assert await said(proxy, "orders", "done") == 200
        assert await said(proxy, "refunds", "done") == 200
        folder.remove("orders")
        await looked(proxy)
        assert await said(proxy, "orders", "done") == 404
        assert await said(proxy, "refunds", "done") == 200
        await proxy.flush(PATIENCE_S)
        turns = await proxy.turns()
    assert [(turn["agent_name"], turn["agent"]) for turn in turns] == [
        ("orders", agents[0]),
        ("orders", agents[1]),
        ("refunds", agents[0]),
        ("refunds", agents[0]),
    ]
    assert {(turn["status"], len(turn["tool_calls"])) for turn in turns} == {("done", 1)}


async def test_a_stream_ends_as_it_began_though_its_agent_changes(agents: tuple[str, str], tmp_path: Path) -> None:
    folder = Folder(tmp_path / "agents")
    folder.put("orders", agents[0])
    async with running(folder) as proxy, httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        body, headers = message(f"gate {tmp_path.name} please", stream=True), {"a2a-version": "1.0"}
        async with client.stream("POST", f"{proxy.url}/agents/orders{RPC_PATH}", json=body, headers=headers) as stream:
            pieces = stream.aiter_bytes()
            first = await anext(pieces)
            folder.put("orders", agents[1])
            await looked(proxy)
            assert await said(proxy, "orders", "done") == 200
            await client.post(f"{agents[0]}/_control/open", params={"gate": tmp_path.name})
            rest = b"".join([piece async for piece in pieces])
        assert b"TASK_STATE_COMPLETED" in first + rest
        for leaving in list(proxy.lines._leaving):
            await leaving
        await proxy.flush(PATIENCE_S)
        turns = await proxy.turns()
    assert [(turn["agent"], turn["state"]) for turn in turns] == [
        (agents[1], "TASK_STATE_COMPLETED"),
        (agents[0], "TASK_STATE_COMPLETED"),
    ]


async def test_a_caller_that_asked_for_tool_calls_still_gets_them_when_its_agent_has_changed(
    agents: tuple[str, str], tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "agents")
    folder.put("orders", agents[0])
    headers = {"a2a-version": "1.0"}
    async with running(folder) as proxy, httpx.AsyncClient(trust_env=False, headers=headers) as client:
        url = f"{proxy.url}/agents/orders{RPC_PATH}"
        sent = await client.post(url, json=message("done"), headers={"a2a-extensions": URI})
        get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": sent.json()["result"]["task"]["id"]}}
        before = (await client.post(url, json=get)).json()
        folder.put("orders", agents[0], turn_timeout=100)
        await looked(proxy)
        after = (await client.post(url, json=get)).json()
    assert METADATA_KEY in before["result"]["artifacts"][0]["metadata"]
    assert after == before


async def test_log_lines_are_redacted_by_the_rules_of_agents_that_were_added(
    agents: tuple[str, str], tmp_path: Path
) -> None:
    folder, of_all = Folder(tmp_path / "agents"), PrivacyOfAll(NO_PRIVACY)
    line = "refused by ann@example.com"
    async with running(folder, of_all) as proxy:
        assert (of_all.text(line), of_all.covers_texts) == (line, True)
        folder.put("orders", agents[0], redact=["email"])
        folder.put("refunds", agents[0], no_content=True)
        await looked(proxy)
        folder.remove("orders")
        await looked(proxy)
    assert "ann@" not in of_all.text(line)
    assert not of_all.covers_texts


async def test_agents_change_though_the_store_cannot_be_read(
    agents: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path / "agents")
    folder.put("orders", agents[0])

    async def away(*_: object) -> Any:
        raise StoreError("the store is away")

    async with running(folder) as proxy:
        monkeypatch.setattr(proxy.store, "positions", away)
        folder.put("refunds", agents[0])
        folder.put("search", agents[1])
        folder.remove("orders")
        await looked(proxy)
        found = {name: await said(proxy, name, "done") for name in ("orders", "refunds", "search")}
    assert found == {"orders": 404, "refunds": 200, "search": 200}
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert errors == ["what an earlier process left pending is not scored: the store is away"] * 2


async def test_a_bad_file_is_logged_once_and_changes_nothing(
    agents: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path / "agents")
    folder.put("orders", agents[0])
    async with running(folder) as proxy:
        folder.put("orders", "not a url")
        for _ in range(3):
            await looked(proxy)
        assert await said(proxy, "orders", "done") == 200
        folder.put("orders", agents[0], suite=str(tmp_path / "missing.yaml"))
        await looked(proxy)
        assert await said(proxy, "orders", "done") == 200
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2, errors
    assert "agents.orders.upstream: expected a URL" in errors[0]
    assert errors[1].startswith("agent orders: the earlier one stays in use, ")


async def test_a_mistake_in_one_file_costs_the_other_agents_nothing(
    agents: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Teams have a directory each, as each mounts a ConfigMap of its own: at the start, and while the proxy runs."""
    folder = Folder(tmp_path / "agents")
    shop, art = Folder(folder.path / "shop"), Folder(folder.path / "art")
    shop.put("orders", agents[0])
    art.put("broken", "not a url")
    art.put("missing", agents[1], suite=str(tmp_path / "missing.yaml"))
    async with running(folder) as proxy:
        assert [*proxy.lines] == ["orders"]
        assert proxy.agents_refused == 2
        art.put("orders", "http://127.0.0.1:9")  # of another team, and before that of `shop` by name
        art.put("paint", agents[1])
        await looked(proxy)
        assert [await said(proxy, name, "done") for name in ("orders", "paint", "broken")] == [200, 200, 404]
        shop.remove("orders")
        (tmp_path / "missing.yaml").write_text("suite: late\nevaluators: [tool_error]\n")
        await asyncio.to_thread(proxy.files.check)
        while proxy.lines._trying is None:
            await asyncio.sleep(0)
        await proxy.lines._trying
        assert proxy.agents_refused == 1
        art.put("broken", agents[1])
        await looked(proxy)
        assert proxy.agents_refused == 0
        assert {*proxy.lines} == {"orders", "paint", "broken", "missing"}
        assert proxy.lines["orders"].agent.settings.upstream == "http://127.0.0.1:9"
    errors = [record.getMessage() for record in caplog.records if record.name.endswith(".agent_files")]
    assert [error.split(":")[0] for error in errors] == ["agent broken", "agent orders"]
    assert errors[1].endswith(f", {art.path}/orders.yaml: agents.orders: there is another agent of this name")
    art.put("broken", "not a url")
    for name in ("orders", "paint", "missing"):
        art.remove(name)
    with pytest.raises(ConfigError, match=r"broken\.yaml: agents\.broken\.upstream: expected a URL"):
        async with running(folder):
            pass


async def test_an_agent_that_cannot_be_served_begins_nothing(
    agents: tuple[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path / "agents")
    folder.put("orders", agents[0])
    folder.put("secure", "https://127.0.0.1:9", upstream_ca=str(tmp_path / "missing.pem"))
    async with running(folder) as proxy:
        await looked(proxy)
        working = [task for task in asyncio.all_tasks() if "Pipeline._work" in str(task)]
        assert len(working) == 1
        assert len(proxy.files._parts) == 2, "of the one agent, and of the file that is missing"
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [error.split(",")[0] for error in errors] == ["agent secure: it is not served"]


def test_a_hangup_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    """It runs the plug-in of the suite, which waits for a pipe, when the signal comes."""
    folder, suite, gate = Folder(tmp_path / "agents"), tmp_path / "suite.yaml", tmp_path / "gate"
    os.mkfifo(gate)
    (tmp_path / "waits.py").write_text(f"open({str(gate)!r}).read()")
    suite.write_text('{"suite": "s", "plugins": ["waits.py"], "cases": [{"id": "a", "turns": [{"user": "x"}]}]}')
    folder.put("orders", "http://127.0.0.1:9", suite=str(suite))
    command = [COMMAND, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--no-otlp"]
    command += ["--agents-dir", str(folder.path), "--store", str(tmp_path / "turns.db")]
    with ChildProcess(command, cwd=tmp_path) as serve:
        with gate.open("w"):
            os.kill(serve.process.pid, signal.SIGHUP)
        serve.wait_for(r"ready: proxy \S+ -> 1 agent at")


async def test_a_task_without_an_exchange_has_one_owner_while_an_earlier_stream_runs(
    agents: tuple[str, str], tmp_path: Path
) -> None:
    """The task that waits for its user is continued on the changed agent, and its turns are closed once."""
    folder, closed = Folder(tmp_path / "agents"), Closed()
    folder.put("orders", agents[0])
    ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": f"{folder.path}.db", "run": "day"}
    settings = load(Settings, {**ports, "agents_dir": str(folder.path)})
    gates = [f"{tmp_path.name}-{number}" for number in range(2)]
    async with (
        run_proxy(settings, closed) as proxy,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, headers={"a2a-version": "1.0"}) as client,
    ):
        url = f"{proxy.url}/agents/orders{RPC_PATH}"
        async with client.stream("POST", url, json=message(f"gate {gates[0]}", stream=True)) as stream:
            pieces = stream.aiter_bytes()
            await anext(pieces)
            async with client.stream("POST", url, json=message(f"gate {gates[1]}", stream=True)) as left:
                task_id = json.loads((await anext(left.aiter_lines())).removeprefix("data: "))["result"]["task"]["id"]
            while not (open_turns := [t for t in proxy.lines["orders"].reports.open_turns if t.in_store]):
                await asyncio.sleep(0)
            assert [turn.task_id for turn in open_turns] == [task_id]
            get = {"jsonrpc": "2.0", "id": 2, "method": "GetTask", "params": {"id": task_id}}
            for number in range(3):
                folder.put("orders", agents[0], turn_timeout=100 + number)
                await looked(proxy)
                assert "WORKING" in (await client.post(url, json=get)).text
                await asyncio.gather(*(reports.stored_tasks.answered(PATIENCE_S) for reports in proxy.lines.reports))
                assert sum(task_id in reports.capture.book.task_ids for reports in proxy.lines.reports) == 1
            await client.post(f"{agents[0]}/_control/open", params={"gate": gates[1]})
            while "COMPLETED" not in (await client.post(url, json=get)).text:
                pass
            folder.remove("orders")
            await looked(proxy)
            await client.post(f"{agents[0]}/_control/open", params={"gate": gates[0]})
            async for _ in pieces:
                pass
        for leaving in list(proxy.lines._leaving):
            await leaving
        await proxy.flush(PATIENCE_S)
        assert proxy.open_turns == 0
        turns = await proxy.turns()
    assert sorted(closed.texts) == [f"gate {gate}" for gate in gates]
    assert {(turn["state"], len(turn["tool_calls"])) for turn in turns} == {("TASK_STATE_COMPLETED", 1)}
    assert {one["code"] for turn in turns for one in turn["findings"]} == {"client_gone"}


@pytest.mark.parametrize(("before", "after"), [({}, {"redact": "email"}), ({"redact": "email"}, {})])
async def test_an_agent_begins_or_ends_to_be_redacted_over_a_store_that_proxies_share(
    agents: tuple[str, str], tmp_path: Path, postgres: PostgresServer, before: dict[str, str], after: dict[str, str]
) -> None:
    """Without redaction, proxies exchange what they observe. A stream is under way, and another proxy has its task."""
    folder, url, closed = Folder(tmp_path / "agents"), postgres.new_store(), Closed()
    folder.put("orders", agents[0], **before)
    ports = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": False, "store": url, "run": "day"}
    settings = load(Settings, {**ports, "agents_dir": str(folder.path)})
    gate, mine = f"{tmp_path.name}", "ask for ada@example.com"
    async with (
        run_proxy(settings, closed) as proxy,
        run_proxy(settings, closed) as other,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, headers={"a2a-version": "1.0"}) as client,
    ):
        address, elsewhere = (f"{one.url}/agents/orders{RPC_PATH}" for one in (proxy, other))
        waits = (await client.post(address, json=message(mine))).json()["result"]["task"]
        await proxy.flush(PATIENCE_S)
        async with client.stream("POST", address, json=message(f"gate {gate} ada@example.com", stream=True)) as stream:
            lines = stream.aiter_lines()
            task_id = json.loads((await anext(lines)).removeprefix("data: "))["result"]["task"]["id"]
            folder.put("orders", agents[0], **after)
            await looked(proxy)
            await looked(other)
            get = {"jsonrpc": "2.0", "id": 2, "method": "GetTask", "params": {"id": task_id}}
            assert "WORKING" in (await client.post(elsewhere, json=get)).text
            await client.post(f"{agents[0]}/_control/open", params={"gate": gate})
            async for _ in lines:
                pass
        again = message("done for ada@example.com")
        again["params"]["message"] |= {"taskId": waits["id"], "contextId": waits["contextId"]}
        assert "COMPLETED" in (await client.post(elsewhere, json=again)).text
        for one in (proxy, other):
            await asyncio.gather(*one.lines._leaving)
            await one.flush(PATIENCE_S)
        assert proxy.open_turns + other.open_turns == 0
        turns = await proxy.turns()
    with psycopg.connect(url) as connection:
        kept = connection.execute("SELECT content FROM observations").fetchall()
    assert kept == []
    shown = {turn["user_text"].split()[0]: turn for turn in turns}
    assert len(turns) == len(closed.texts) == 3
    assert {name: turn["state"] for name, turn in shown.items()} == {
        "ask": "TASK_STATE_INPUT_REQUIRED", "gate": "TASK_STATE_COMPLETED", "done": "TASK_STATE_COMPLETED"
    }  # fmt: skip
    assert [len(shown[name]["tool_calls"]) for name in ("ask", "gate", "done")] == [1, 1, 1]
    redacted = {name for name, turn in shown.items() if "ada@example.com" not in turn["user_text"]}
    assert redacted == ({"gate", "done"} if after else {"ask"})
