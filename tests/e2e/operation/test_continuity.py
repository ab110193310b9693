"""Tasks and turns over crashes and orderly stops: each call in one turn, each turn completed once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.patience import PATIENCE_S, POLL_S
from support.proxy import Proxy, Turn

OPTIONS = ("--no-evaluate",)


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with stepwise_agent() as agent:
        yield agent.url


def rpc(proxy: Proxy, method: str, params: dict[str, Any]) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = httpx.post(f"{proxy.url}{RPC_PATH}", json=body, headers={"A2A-Version": "1.0"}, trust_env=False)
    result: dict[str, Any] = answer.json()["result"]
    return result


def say(proxy: Proxy, text: str, task: dict[str, Any] | None = None, *, wait: bool = True) -> dict[str, Any]:
    """The task that the message led to."""
    message: dict[str, Any] = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    if task is not None:
        message |= {"taskId": task["id"], "contextId": task["contextId"]}
    params = {"message": message, "configuration": {"returnImmediately": not wait}}
    answer: dict[str, Any] = rpc(proxy, "SendMessage", params)["task"]
    return answer


def poll(proxy: Proxy, task: dict[str, Any]) -> str:
    state: str = rpc(proxy, "GetTask", {"id": task["id"]})["status"]["state"]
    return state


def open_gate(agent: str, name: str) -> None:
    httpx.post(f"{agent}/_control/open", params={"gate": name}, trust_env=False).raise_for_status()


def until_completed(proxy: Proxy, task: dict[str, Any]) -> None:
    while poll(proxy, task) != "TASK_STATE_COMPLETED":
        time.sleep(POLL_S)


def told(turns: list[Turn]) -> list[tuple[str, list[int], str]]:
    """State, orders refunded and text of each turn."""
    return [
        (
            turn["state"].removeprefix("TASK_STATE_"),
            [call["arguments"]["order"] for call in turn["tool_calls"]],
            turn["response_text"],
        )
        for turn in turns
    ]


def codes(turns: list[Turn]) -> list[list[str]]:
    return [[finding["code"] for finding in turn["findings"]] for turn in turns]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_turn_and_its_task_survive_the_process(agent: str, tmp_path: Path, end: str) -> None:
    store, gate = tmp_path / "turns.db", uuid.uuid4().hex
    with Proxy(agent, store, *OPTIONS) as proxy:
        resumed = say(proxy, "ask")
        task = say(proxy, f"gate {gate}", wait=False)
        proxy.flush()
        while end == "kill" and not proxy.turns(status="open"):
            time.sleep(POLL_S)
        if end == "kill":
            proxy.kill()
        else:
            proxy.terminate()
            assert proxy.wait(PATIENCE_S) == 0
    with Proxy(agent, store, *OPTIONS) as proxy:
        (before,) = proxy.turns(status="open")
        assert before["ended_at"] is None
        assert poll(proxy, task) == "TASK_STATE_WORKING"
        open_gate(agent, gate)
        until_completed(proxy, task)
        say(proxy, "done", resumed)
        proxy.flush()
        asked, completed, done = proxy.turns()
    assert completed["turn_id"] == before["turn_id"]
    assert told([asked, completed, done]) == [
        ("INPUT_REQUIRED", [0], "answer 0"),
        ("COMPLETED", [0], "answer 0"),
        ("COMPLETED", [1], "answer 1"),
    ]
    assert codes([asked, completed, done]) == [[], [], []]
