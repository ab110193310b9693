"""The JDK's HTTP client, as Java clients of A2A use it: over plain http it offers HTTP/2 with every request."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from agents.h11_agent import H11Agent
from e2e.contracts import GetAgent, GetProxy
from support.proxy import Proxy
from support.raw_a2a import RPC, Wire
from support.recordings import anonymous, respelt

PROGRAM = Path(__file__).parents[1] / "clients" / "JdkRequests.java"
CARD = "/.well-known/agent-card.json"

Job = tuple[str, str, bytes | None]


@pytest.fixture(scope="module")
def java() -> str:
    """Skips without a JDK, which `java X.java` needs; CI must not lose the tests silently."""
    found = shutil.which("java") if shutil.which("javac") else None
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("no JDK (Debian: default-jdk-headless)")
        pytest.skip("no JDK (Debian: default-jdk-headless)")
    return found


def answers(java: str, url: str, jobs: list[Job], times: int) -> list[tuple[int, bytes]]:
    """Status and body of each: one after the other, then all of them several times at once."""
    lines = [f"{method} {path} {base64.b64encode(body).decode() if body else '-'}" for method, path, body in jobs]
    command = [java, "-XX:TieredStopAtLevel=1", "-Xshare:auto", str(PROGRAM), url, str(times)]
    run = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    pairs = (line.split(" ") for line in run.stdout.splitlines())
    return [(int(status), base64.b64decode(body)) for status, body in pairs]


def test_every_request_of_many_at_once_gets_its_own_answer(java: str, tmp_path: Path) -> None:
    jobs: list[Job] = [("POST", f"/{number}", b"x" * number * 997) for number in range(1, 13)]
    with H11Agent() as agent, Proxy(agent.url, tmp_path / "turns.db") as proxy:
        got = answers(java, proxy.url, jobs, 5)
        assert agent.errors == []
        assert all(request.whole for request in agent.requests)
    expected = [(200, f"/{number} {number * 997}".encode()) for number in range(1, 13)]
    assert got == expected * 6


def test_card_message_and_stream_are_what_they_are_directly(java: str, agent: GetAgent, proxy_of: GetProxy) -> None:
    """Directly means with a client that offers nothing: this agent's server loses the bodies of offers, too."""
    upstream = agent("v1")
    proxy = proxy_of(upstream)
    wire = Wire("1.0", "JSONRPC")
    bodies = [wire.message("chunks for java", stream=stream).body for stream in (False, False, True)]
    jobs: list[Job] = [("GET", CARD, None), *(("POST", RPC, body) for body in bodies)]
    headers = {"content-type": "application/json", "a2a-version": "1.0"}
    with httpx.Client(base_url=upstream, headers=headers, trust_env=False) as client:
        plain = [client.request(method, path, content=body) for method, path, body in jobs]
    direct = [_comparable(response.status_code, response.content, upstream) for response in plain]

    proxied = [_comparable(*answer, proxy.url) for answer in answers(java, proxy.url, jobs, 2)]

    assert b"chunks" in plain[1].content
    assert [status for status, _ in proxied] == [200] * 12
    for number, answer in enumerate(proxied):
        if number % 4:
            assert answer == direct[number % 4]
        else:
            assert json.loads(answer[1])["name"] == plain[0].json()["name"]


def _comparable(status: int, body: bytes, url: str) -> tuple[int, str]:
    return status, anonymous(respelt(body.decode().replace(url, "URL")))
