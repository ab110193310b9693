"""Proxies inside a test process: shared, bounded in number, and nothing of them left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.testing import EvalProxy, ProxyPool
from a2a_eval_proxy.testing.proxies import MAX_IDLE
from a2a_tool_capture.errors import AgentUnreachableError
from agents.approval_agent import approval_agent
from agents.scenario_agent import scenario_agent
from support.patience import PATIENCE_S
from support.ports import held_ports


@pytest.fixture
def pool() -> Iterator[ProxyPool]:
    pool = ProxyPool(run="tests", case_id=lambda: "bound", export=True)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


def ask(proxy: EvalProxy, text: str = "chunks please", *, wait: bool = True, case: str | None = None) -> None:
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, "configuration": {"returnImmediately": not wait}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = {"A2A-Version": "1.0"} | ({"A2A-Eval-Case": case} if case else {})
    response = httpx.post(f"{proxy.url}/a2a/jsonrpc", json=body, headers=headers, trust_env=False)
    assert "result" in response.json(), response.text


def test_one_proxy_for_an_agent_and_its_settings(pool: ProxyPool, agent: str) -> None:
    first, second = pool.acquire(agent), pool.acquire(f"{agent}/")
    other = pool.acquire(agent, {"negotiate": "never"})
    assert first.url == second.url != other.url
    ask(first)
    ask(other)
    assert [len(turn["tool_calls"]) for proxy in (first, second, other) for turn in proxy.turns()] == [2, 2, 0]
    later = pool.acquire(agent)
    assert later.turns() == []


def test_turns_belong_to_the_case_that_is_bound_or_that_the_client_names(pool: ProxyPool, agent: str) -> None:
    proxy = pool.acquire(agent)
    ask(proxy)
    ask(proxy, case="named")
    assert [turn["case_id"] for turn in proxy.turns()] == ["bound", "named"]


def test_a_turn_that_is_not_answered_is_closed_at_the_end(pool: ProxyPool, agent: str) -> None:
    proxy = pool.acquire(agent)
    ask(proxy, "long gate", wait=False)
    assert proxy.turns() == []
    pool.close()
    [export] = pool.exported
    [turn] = export["turns"]
    assert "incomplete" in [finding["code"] for finding in turn["findings"]]
    with pytest.raises(RuntimeError, match="the proxy of the test session was stopped"):
        proxy.turns()


def test_proxies_that_nobody_uses_are_stopped_and_their_turns_kept(pool: ProxyPool, agent: str) -> None:
    for timeout in range(1, MAX_IDLE + 4):  # as many agents, as far as the pool can tell
        proxy = pool.acquire(agent, {"turn_timeout": timeout})
        ask(proxy)
        pool.release(proxy)
    assert len(pool.exported) == 3
    used = pool.acquire(agent, {"turn_timeout": MAX_IDLE + 3})
    assert used.url == proxy.url
    pool.close()
    assert sum(len(export["turns"]) for export in pool.exported) == MAX_IDLE + 3


def test_nothing_is_left_behind(tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = set(threading.enumerate())
    pool = ProxyPool(run="tests")
    ask(pool.acquire(agent))
    assert len(list(tmp_path.iterdir())) == 1
    pool.close()
    assert pool.exported == []
    assert list(tmp_path.iterdir()) == []
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), thread


def test_a_message_is_sent_and_its_turn_returned(pool: ProxyPool, agent: str) -> None:
    proxy = pool.acquire(agent)
    ask(proxy, "message me")
    turn = proxy.send("chunks please")
    assert (turn["user_text"], turn["status"], len(turn["tool_calls"])) == ("chunks please", "done", 2)
    again = proxy.send("chunks please", after=turn)
    assert again["conversation_id"] == turn["conversation_id"]
    assert again["turn_id"] != turn["turn_id"]
    assert len(proxy.turns()) == 3
    asked = proxy.send("ask")
    assert asked["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert proxy.send("continue", after=asked)["task_id"] == asked["task_id"]


def test_a_message_is_what_a_turn_of_a_suite_says(pool: ProxyPool) -> None:
    with approval_agent() as refunds:
        proxy = pool.acquire(refunds.url)
        asked = proxy.send({"parts": [{"text": "Refund A-1."}, {"data": {"n": 1}}], "metadata": {"tenant": "a"}})
        assert (asked["user_text"], len(asked["user_parts"])) == ("Refund A-1.", 2)
        assert [call["name"] for call in asked["approvals"]] == ["refund"]
        done = proxy.send({"approve": True}, after=asked)
        assert (done["response_text"], done["task_id"]) == ("Refunded.", asked["task_id"])
        assert done["user_parts"] == [{"data": {"approved": True, "id": "refund-1"}}]
        for wrong, error in (({"approve": True}, TypeError), ({"parts": []}, ValueError), (["hi"], TypeError)):
            with pytest.raises(error):
                proxy.send(wrong)


def test_the_only_turn(pool: ProxyPool, agent: str) -> None:
    proxy = pool.acquire(agent)
    for number, counted in enumerate(("got 0; send messages to http://.*", None, "got 2$")):
        with pytest.raises(AssertionError, match=f"expected one turn, {counted}") if counted else nullcontext():
            assert proxy.turn()["status"] == "done"
        proxy.send(f"message {number}")


def test_an_agent_that_is_not_there_is_named(pool: ProxyPool) -> None:
    words = "answered HTTP 502: the agent at http://127.0.0.1:[0-9]+ cannot be reached: Connection refused$"
    with held_ports(1) as [port], pytest.raises(AgentUnreachableError, match=words) as raised:
        pool.acquire(f"http://127.0.0.1:{port}").send("hello")
    assert [frame.name for frame in raised.traceback][1:] == ["send"]
