"""`serve --processes N`: several processes behind one port, one store, one admin port."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_tool_capture import URI
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.live import live
from support.patience import PATIENCE_S, POLL_S
from support.prefork import COMMAND
from support.processes import ChildProcess, children
from support.proxy import Proxy
from support.raw_http2 import raw_answer

OPTIONS = ("--processes", "3")


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with stepwise_agent() as agent:
        yield agent.url


def rpc(proxy: Proxy, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A request on a connection of its own, which any of the processes may get."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    url, headers = f"{proxy.url}{RPC_PATH}", {"A2A-Version": "1.0"}
    result: dict[str, Any] = httpx.post(url, json=body, headers=headers, trust_env=False).json()["result"]
    return result


def say(proxy: Proxy, text: str, *, wait: bool = True) -> dict[str, Any]:
    """The task that the message led to."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, "configuration": {"returnImmediately": not wait}}
    task: dict[str, Any] = rpc(proxy, "SendMessage", params)["task"]
    return task


def open_gate(agent: str, name: str) -> None:
    httpx.post(f"{agent}/_control/open", params={"gate": name}, trust_env=False).raise_for_status()


def metric(proxy: Proxy, name: str) -> float:
    """The value of a series, its labels as part of the name; 0 where it does not exist yet."""
    found = re.search(rf"^a2a_eval_proxy_{re.escape(name)} (.+)$", proxy.get_text("/metrics"), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_turns_of_all_processes_are_in_one_store_and_one_set_of_metrics(agent: str, tmp_path: Path) -> None:
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS) as proxy:
        with ThreadPoolExecutor(8) as threads:
            tasks = list(threads.map(lambda _: say(proxy, "done"), range(40)))
        proxy.flush()
        turns = proxy.turns()
        while metric(proxy, "request_duration_seconds_count") < 40:  # a process reports its counts once a second
            pass
        assert metric(proxy, "requests_total") == 40
        assert metric(proxy, 'responses_total{code="200"}') == 40
        assert metric(proxy, "turns_closed_total") == 40
        wires = [proxy.get(f"/api/turns/{turn['turn_id']}/wire") for turn in turns]
        proxy.terminate()
        assert proxy.wait(PATIENCE_S) == 0
    assert {turn["task_id"] for turn in turns} == {task["id"] for task in tasks}
    assert {(turn["status"], len(turn["tool_calls"]), len(turn["findings"])) for turn in turns} == {("done", 1, 0)}
    for turn, wire in zip(turns, wires, strict=True):
        assert wire["complete"], "whichever process has it"
        assert turn["task_id"] in wire["exchanges"][0]["response"]["body"]["text"]


def test_a_task_is_followed_to_its_end_by_whichever_process_its_client_reaches(agent: str, tmp_path: Path) -> None:
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS) as proxy:
        gates = [uuid.uuid4().hex for _ in range(6)]
        tasks = [say(proxy, f"gate {gate}", wait=False) for gate in gates]
        for gate in gates:
            open_gate(agent, gate)
        for task in tasks:
            while rpc(proxy, "GetTask", {"id": task["id"]})["status"]["state"] != "TASK_STATE_COMPLETED":
                time.sleep(POLL_S)
        while len(turns := proxy.turns(status="done")) < len(tasks):
            for task in tasks:
                rpc(proxy, "GetTask", {"id": task["id"]})
    assert sorted(turn["task_id"] for turn in turns) == sorted(task["id"] for task in tasks)
    assert {(turn["state"], len(turn["tool_calls"])) for turn in turns} == {("TASK_STATE_COMPLETED", 1)}


def test_a_task_without_a_client_survives_the_process_that_relayed_it(agent: str, tmp_path: Path) -> None:
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS) as proxy:
        gate = uuid.uuid4().hex
        task = say(proxy, f"gate {gate}", wait=False)
        while not proxy.turns(status="open"):
            time.sleep(POLL_S)
        for child in proxy.children()[1:]:
            os.kill(child, signal.SIGKILL)
        while proxy.readiness() == 200:
            pass
        while proxy.readiness() != 200:
            time.sleep(POLL_S)
        open_gate(agent, gate)
        while not (turns := proxy.turns(status="done")):
            rpc(proxy, "GetTask", {"id": task["id"]})
    assert [(turn["state"], len(turn["tool_calls"]), turn["findings"]) for turn in turns] == [
        ("TASK_STATE_COMPLETED", 1, [])
    ]


def test_a_call_whose_path_is_no_text_is_one_call_like_any_other(agent: str, tmp_path: Path) -> None:
    """Whichever process gets it."""
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS, "--grpc", "127.0.0.1:0") as proxy:
        assert proxy.grpc_address is not None
        for _ in range(10):
            answer = raw_answer(proxy.grpc_address, b"/test.Service/\xff", [], b"")
            assert (b"grpc-status", b"14") in answer["head"]  # nothing listens at the address in the agent's card
        assert proxy.readiness() == 200


@pytest.mark.parametrize("victim", ["main", "supervisor", "all"])
def test_where_the_main_process_or_the_supervisor_dies_all_end_and_nothing_is_left(
    agent: str, tmp_path: Path, victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS) as proxy:
        everyone = proxy.children()
        if victim == "main":
            os.kill(everyone[0], signal.SIGKILL)
            assert proxy.wait(PATIENCE_S) == 128 + signal.SIGKILL
        else:
            proxy.kill()
            for child in everyone if victim == "all" else ():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        while any(Path(f"/proc/{child}").exists() for child in everyone):
            time.sleep(POLL_S)
    assert not list(temporary.iterdir())


def test_children_of_others_are_not_replaced(agent: str, tmp_path: Path) -> None:
    """Such as those of the script that became the supervisor."""
    ends = [tmp_path / "first", tmp_path / "second"]
    for end in ends:
        os.mkfifo(end)
    script = "".join(f"read _ < {end} & " for end in ends) + 'exec "$@"'
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS, command=("sh", "-c", script, "sh", COMMAND)) as proxy:
        everyone = proxy.children()
        for end, child in zip(ends, everyone, strict=False):
            end.write_text("now\n")
            while child in proxy.children():
                time.sleep(POLL_S)
        assert proxy.children() == everyone[2:]


def test_process_one_of_a_container_leaves_no_zombies_and_stops_in_order(agent: str, tmp_path: Path) -> None:
    container = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*container, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces of processes cannot be made here")
    end = tmp_path / "end"
    os.mkfifo(end)
    with Proxy(agent, tmp_path / "turns.db", command=(*container, COMMAND)) as proxy:
        (one,) = proxy.children()
        before = children(one)
        leave_an_orphan = ["nsenter", "--target", str(one), "--pid", "sh", "-c", f"read _ < {end} &"]
        subprocess.run(leave_an_orphan, check=True)
        while children(one) == before:
            time.sleep(POLL_S)
        end.write_text("now\n")
        while children(one) != before:
            time.sleep(POLL_S)
        say(proxy, "done")
        os.kill(one, signal.SIGTERM)
        assert proxy.wait(PATIENCE_S) == 0
        assert "stopping" in proxy.stderr()


def test_an_address_in_use_is_an_error(agent: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["serve", "--upstream", agent, "--listen", f"127.0.0.1:{port}", "--no-otlp", *OPTIONS]
        with ChildProcess([COMMAND, *command], cwd=tmp_path) as child:
            assert child.wait(PATIENCE_S) == 3
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in child.stderr()


def test_what_a_serving_process_cannot_do_ends_the_start(agent: str, tmp_path: Path) -> None:
    command = ["serve", "--upstream", agent, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--no-otlp", *OPTIONS]
    tls = ["--tls-cert", "missing.pem", "--tls-key", "missing.pem"]
    with ChildProcess([COMMAND, *command, *tls], cwd=tmp_path) as child:
        assert child.wait(PATIENCE_S) == 2
        assert child.stderr().count("missing.pem") == 1


def test_whichever_process_a_client_reaches_knows_what_it_asked_for(agent: str, tmp_path: Path) -> None:
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS) as proxy:
        asking = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "done"}], "extensions": [URI]}}
        task = rpc(proxy, "SendMessage", asking)["task"]
        assert URI in str(task)
        # The other processes hear of it a moment later.
        while not all(URI in str(rpc(proxy, "GetTask", {"id": task["id"]})) for _ in range(10)):
            time.sleep(POLL_S)
        other = say(proxy, "done")
        assert not any(URI in str(rpc(proxy, "GetTask", {"id": other["id"]})) for _ in range(10))
        _, victim, *_ = proxy.children()
        os.kill(victim, signal.SIGKILL)
        while proxy.readiness() == 200:
            pass
        while proxy.readiness() != 200:
            time.sleep(POLL_S)
        assert all(URI in str(rpc(proxy, "GetTask", {"id": task["id"]})) for _ in range(10))


async def stream(client: httpx.AsyncClient, text: str) -> bool:
    """A streaming turn on a connection of its own; whether it came to its end."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    try:
        await client.post(RPC_PATH, json=body, headers={"A2A-Version": "1.0", "connection": "close"})
    except httpx.TransportError:
        return False
    return True


async def test_live_events_of_all_processes_and_of_those_that_replace_dead_ones(agent: str, tmp_path: Path) -> None:
    gates = [uuid.uuid4().hex for _ in range(5)]
    with Proxy(agent, tmp_path / "turns.db", *OPTIONS) as proxy:
        async with (
            httpx.AsyncClient(base_url=proxy.url) as data,
            httpx.AsyncClient(base_url=proxy.admin_url) as admin,
            live(admin) as events,
        ):
            turns = [asyncio.create_task(stream(data, f"gate {gate}")) for gate in gates]
            working: set[str] = set()
            while len(working) < len(gates):
                event = await events.next()
                if event.name == "state" and event.data["state"] == "TASK_STATE_WORKING":
                    working.add(event.data["turn_id"])
            shown = (await admin.get("/api/open-turns")).json()["items"]
            assert {(turn["turn_id"], turn["state"]) for turn in shown} == {
                (turn_id, "TASK_STATE_WORKING") for turn_id in working
            }
            assert (await admin.get(f"/turns/{shown[0]['turn_id']}")).status_code == 200
            await asyncio.to_thread(open_gate, agent, gates[0])
            assert await turns[0]
            *changes, done = await events.until("turn.done")
            names = [event.name for event in changes]
            assert names.pop() == "turn.closed"
            assert {"tool_call", "text", "state"} == set(names)
            main, *serving = proxy.children()
            for child in serving:
                os.kill(child, signal.SIGKILL)
            assert not any(await asyncio.gather(*turns[1:]))
            closed = [(await events.until("turn.closed"))[-1].data for _ in turns[1:]]
            assert {turn["turn_id"] for turn in closed} | {done.data["turn_id"]} == working
            ends = {turn["findings"][-1]["message"].rpartition(": ")[2] for turn in closed}
            assert ends == {"the process that relayed it ended"}
            while proxy.readiness() != 200:
                time.sleep(POLL_S)
            assert proxy.children()[0] == main
            assert await stream(data, "done")
            await events.until("tool_call")  # from a new process
            for gate in gates:
                open_gate(agent, gate)
            proxy.flush()
            assert [len(turn["findings"]) for turn in proxy.turns()].count(1) == len(closed)
