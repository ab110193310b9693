"""`send`: its exit code says whether the agent's task failed."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.features.send.transcript import MAX_FILE_BYTES, files_of, send_message
from a2a_eval_proxy.runs.drive import AgentOptions
from a2a_tool_capture.errors import AgentError
from agents.replay_agent import Answer, ReplayAgent
from agents.scenario_agent import scenario_agent
from click.testing import CliRunner


@pytest.mark.parametrize(("text", "code", "ends_with"), [("artifact now", 0, "completed"), ("fail now", 1, "failed")])
def test_the_exit_code_is_that_of_the_task(
    text: str, code: int, ends_with: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with scenario_agent() as agent:
        monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", "send", text, "--agent", agent.url])
        with pytest.raises(SystemExit) as ended:
            main()
    assert (ended.value.code or 0) == code
    assert f"\n{ends_with}, " in capsys.readouterr().out


def _card(url: str) -> Answer:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = {"name": "Shop", "capabilities": {"streaming": True}, "supportedInterfaces": [interface]}
    return _answer("application/json", json.dumps(card).encode())


def _answer(content_type: str, body: bytes) -> Answer:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n"
    return Answer([head.encode() + body], cut=True)


async def test_files_go_with_the_message(tmp_path: Path) -> None:
    bill = tmp_path / "bill.pdf"
    bill.write_bytes(b"%PDF \xff")
    with ReplayAgent() as agent:
        agent.card = _card(agent.url)
        agent.prepare(_answer("text/event-stream", b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n'))
        with suppress(AgentError):
            files = files_of([str(bill)])
            await send_message(AgentOptions(agent.url), "Read this.", files=files)
        (sent,) = agent.received
    text, file = json.loads(sent.body)["params"]["message"]["parts"]
    assert text == {"text": "Read this."}
    assert file == {"raw": "JVBERiD/", "filename": "bill.pdf", "mediaType": "application/pdf"}


def test_files_that_cannot_be_sent_are_named(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as opened:
        opened.truncate(MAX_FILE_BYTES + 1)
    for path, why in (("missing.txt", "No such file"), (str(tmp_path), "Is a directory"), (str(large), "10,000,000")):
        result = CliRunner().invoke(cli, ["send", "hello", "--agent", "127.0.0.1:9", "--file", path])
        assert isinstance(result.exception, ConfigError)
        assert why in str(result.exception)
