"""Certificates and secrets on the command line: what they do, which errors wrong ones give; where secrets are not."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from agents.replay_agent import Answer, ReplayAgent
from agents.scenario_agent import scenario_agent
from support.certificates import Authority
from support.prefork import run
from support.proxy import Proxy
from support.raw_a2a import Wire

SECRETS = ("t0ken-of-ours", "k3y-of-ours", "op3n-sesame")


def test_secrets_reach_the_agent_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, key, password = SECRETS
    authority = Authority(tmp_path / "authority")
    (tmp_path / "key").write_text(f"{key}\n")
    pair = authority.issue("proxy", password=password)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("AGENT_TOKEN", token)
    monkeypatch.setenv("A2A_EVAL_PROXY_TLS_KEY_PASSWORD", password)
    arguments = (
        *("--upstream-header", "Authorization: Bearer ${AGENT_TOKEN}"),
        *("--upstream-header", f"X-Api-Key: ${{file:{tmp_path / 'key'}}}"),
        *("--tls-cert", str(pair.cert), "--tls-key", str(pair.key), "--tls-ports", "admin=off,otlp=off"),
        *("--log-level", "debug"),
    )
    shown = ""
    with ReplayAgent() as collector:
        collector.prepare(Answer([b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        with scenario_agent() as agent, Proxy(agent.url, work / "turns.db", *arguments) as proxy:
            with httpx.Client(base_url=proxy.url, verify=authority.client(), trust_env=False) as client:
                shown += client.get("/.well-known/agent-card.json").text
                for stream, text in ((True, "chunks please"), (False, "artifact please"), (False, "error please")):
                    for binding in ("JSONRPC", "HTTP+JSON"):
                        message = Wire("1.0", binding).message(text, stream=stream)
                        headers = {**dict(message.headers), "Authorization": "Bearer theirs"}
                        answer = client.post(message.request_line.split()[1], headers=headers, content=message.body)
                        shown += answer.text + str(answer.headers)
            requests = httpx.get(f"{agent.url}/_control/requests", trust_env=False).json()
            proxy.flush()
            assert len(proxy.turns()) == 6
            for path in ("/metrics", "/healthz", "/readyz", "/api/turns", "/api/runs"):
                shown += proxy.get_text(path)
            shown += proxy.stderr()
    for path in work.rglob("*"):
        shown += path.read_bytes().decode("latin-1")
    shown += run("export", "--store", str(work / "turns.db"), cwd=work).stdout
    shown += run("serve", "--help", cwd=work, A2A_EVAL_PROXY_UPSTREAM_HEADER=f"X: {token}").stdout
    shown += "".join((export.head + export.body).decode("latin-1") for export in collector.received)

    assert len(requests) >= 8  # what negotiation asked, the card, the messages
    for request in requests:
        headers = [(name, value) for name, value in request["headers"] if name in ("authorization", "x-api-key")]
        assert headers == [("authorization", f"Bearer {token}"), ("x-api-key", key)], request["path"]
    assert any("/v1/traces" in export.request_line for export in collector.received)
    assert "artifact please" in shown
    assert [secret for secret in SECRETS if secret in shown] == []
