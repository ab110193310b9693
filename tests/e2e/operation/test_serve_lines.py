"""What `serve` prints while it serves: the agent at the start, then each turn once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from agents.stepwise_agent import RPC_PATH, stepwise_agent
from support.patience import PATIENCE_S
from support.proxy import Proxy

TURN = re.compile(r"^\d\d:\d\d:\d\d  (\S+)  (.+)  (\w+)(?: \(.+\))?  (?:\d+ ms|\d+\.\d s)$", re.MULTILINE)
ENDED = "stopping: waiting"
TURNS = 15  # not too many to be shown, however close together they end


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with stepwise_agent() as agent:
        yield agent.url


def say(proxy: Proxy, case: str = "") -> None:
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "done"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    headers = {"A2A-Version": "1.0"} | ({"A2A-Eval-Case": case} if case else {})
    httpx.post(f"{proxy.url}{RPC_PATH}", json=body, headers=headers, trust_env=False).raise_for_status()


def printed(proxy: Proxy) -> str:
    """Everything on stderr, once the proxy has ended."""
    proxy.terminate()
    assert proxy.wait(PATIENCE_S) == 0
    text = proxy.stderr()
    assert ENDED in text
    return text


def test_each_turn_is_printed_once(agent: str, tmp_path: Path) -> None:
    with Proxy(agent, tmp_path / "turns.db") as proxy:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda number: say(proxy, f"case-{number}"), range(TURNS)))
        text = printed(proxy)
    turns = TURN.findall(text)
    assert sorted(case for case, _, _ in turns) == sorted(f"case-{number}" for number in range(TURNS))
    assert {verdict for _, _, verdict in turns} == {"passed"}
    assert text.count("declares tool-call-capture: its tool calls are captured\n") == 1
    assert "another proxy" not in text
    assert len(re.findall(r"^open http://127\.0\.0\.1:\d+/ in a browser to see turns live$", text, re.MULTILINE)) == 1


def test_tokens_and_redacted_texts_are_not_printed(agent: str, tmp_path: Path) -> None:
    token = "sk-" + "a1B2" * 12
    with Proxy(agent, tmp_path / "turns.db", "--redact", "email") as proxy:
        say(proxy, token)
        say(proxy, "ada@example.com")
        text = printed(proxy)
    assert len(TURN.findall(text)) == 2
    assert token not in text
    assert "ada@example.com" not in text
