"""Attempts that show nothing about the agent, in real runs: no form shows them as passed or failed, all count them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.runs.run_result import judge_turns
from a2a_eval_proxy.testing.proxies import _lines
from a2a_eval_proxy.threads import LoopThread
from a2a_tool_capture import METADATA_KEY, URI
from tool_call_evaluators.attempts import EXCLUSIONS, Exclusion
from tool_call_evaluators.suite import load_suite

NOWHERE = "http://127.0.0.1:9/v1"
SUITE = f"""\
suite: s
repeat: 2
judge: {{model: none, base_url: "{NOWHERE}"}}
simulated_user: {{model: none, base_url: "{NOWHERE}"}}
evaluators: [tool_trajectory]
cases:
  - {{id: good, turns: [{{user: look, expect: {{tool_calls: [{{name: look_up}}]}}}}]}}
  - {{id: other, TURNS}}
"""
LOOKED = "turns: [{user: TEXT, expect: {tool_calls: [{name: look_up}]}}]"
OTHERS: list[tuple[Exclusion, str]] = [
    ("unreachable", LOOKED.replace("TEXT", "die")),
    ("unreachable", LOOKED.replace("TEXT", "hang up")),
    ("unreachable", LOOKED.replace("TEXT", "look").replace("}]}}]", "}]}}, {user: hang up}]")),
    ("simulated_user", "evaluators: [tool_error], simulate: {goal: A refund}"),
    ("evaluator_error", f"evaluators: [tool_trajectory, helpfulness], {LOOKED.replace('TEXT', 'look')}"),
    ("calls_unseen", LOOKED.replace("TEXT", "vague")),
]


class Agent:
    """Streams over plain sockets. Asked to `die`, it begins an answer, and the task is never heard of again. Asked to
    `hang up`, it does not answer. Asked to be `vague`, its artifact does not list the extension of the calls in it."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("sockname")[:2]
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                if head.startswith("GET"):
                    await self._send(writer, json.dumps(card(f"http://{host}:{port}")), "application/json")
                    continue
                request = json.loads(body)
                if request["method"] != "SendStreamingMessage":
                    return
                text = request["params"]["message"]["parts"][0]["text"]
                if text == "hang up":
                    return
                events = "".join(f"data: {json.dumps(event)}\n\n" for event in answer(request["id"], text))
                await self._send(writer, events, "text/event-stream")
                if text == "die":
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, text: str, kind: str) -> None:
        data = text.encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()


def card(url: str) -> dict[str, object]:
    return {
        "name": "orders",
        "description": "Knows orders",
        "version": "1.4",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True, "extensions": [{"uri": URI}]},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }


def answer(request_id: object, text: str) -> Iterator[dict[str, object]]:
    task: dict[str, object] = {"id": f"t-{request_id}", "contextId": f"c-{request_id}"}
    if text == "die":
        task["status"] = {"state": "TASK_STATE_WORKING"}
    else:
        calls = [{"id": "1", "name": "look_up", "arguments": {}, "result": "sent"}]
        artifact: dict[str, object] = {
            "artifactId": "1",
            "parts": [{"text": "Sent."}],
            "metadata": {METADATA_KEY: calls},
        }
        if text != "vague":
            artifact["extensions"] = [URI]
        task |= {"status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
    yield {"jsonrpc": "2.0", "id": request_id, "result": {"task": task}}


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    loop = LoopThread("agent")
    server = loop.run(asyncio.start_server(Agent().serve, "127.0.0.1", 0))
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def stop() -> None:
        server.close()

    loop.run(stop())
    loop.close(5)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    for name in ("JUDGE", "SIMULATED_USER"):
        monkeypatch.setenv(f"A2A_EVAL_PROXY_{name}_API_KEY", "x")


def ended(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *command.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize(("reason", "other_case"), OTHERS)
def test_excluded_attempts(
    reason: Exclusion, other_case: str, agent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("suite.yaml").write_text(SUITE.replace("TURNS", LOOKED.replace("TEXT", "look")))
    assert ended(f"run suite.yaml --agent {agent} --run before", monkeypatch) in (0, 1)
    Path("suite.yaml").write_text(SUITE.replace("TURNS", other_case))
    capsys.readouterr()
    run = f"run suite.yaml --agent {agent} --run now --report report --baseline version:1.4 --fail-on regression"
    assert ended(run, monkeypatch) == (3 if reason == "unreachable" else 1), "what is missing is no pass"
    sentence = f"2 attempts excluded: 2 {EXCLUSIONS[reason]}"
    out = capsys.readouterr().out
    assert sentence in out
    rows = [line for line in out.splitlines() if re.match(r"other +\S+ ", line)]
    assert all("excluded" in row and "failed" not in row for row in rows)
    assert len(rows) == (0 if reason == "simulated_user" else 2)
    assert "1 always passed, 1 not scored, pass@1 1.00, pass@2 1.00, pass^2 1.00" in out
    report = json.loads(Path("report/report.json").read_text())
    assert report["excluded_attempts"] == {reason: 2}
    other = next(case for case in report["attempts"]["cases"] if case["case_id"] == "other")
    assert (other["passed"], other["failed"], other["excluded_for"]) == (0, 0, {reason: 2})
    statuses = {one["status"] for one in report["conversations"] if one["case_id"] == "other"}
    assert statuses == {"invalid" if reason == "simulated_user" else "unscored"}
    assert (report["counts"]["passed"], report["counts"]["failed"]) == (2, 0)
    case = next(case for case in report["baseline"]["cases"] if case["case"] == "other")
    assert not report["baseline"]["regressed"]
    if reason != "evaluator_error":  # the judge is new: it cannot be compared, and what else was measured can
        assert (case["passed"][1], case["excluded"], case["status"]) == ({"passed": 0, "of": 0}, [0, 2], "unscored")
        assert report["baseline"]["excluded"][1] == {reason: 2}
    assert sentence in Path("report/report.html").read_text()
    assert sentence in Path("report/summary.md").read_text()
    junit = ET.parse("report/junit.xml").getroot()
    assert junit.find(f".//property[@value='{sentence}']") is not None
    failed = [item.get("name") for item in junit.iter("testcase") if item.find("failure") is not None]
    assert "other" not in failed, "an error, or skipped"
    capsys.readouterr()
    assert ended("export --run now", monkeypatch) == 0
    turns = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    if reason != "simulated_user":  # which no test of pytest has
        assert sentence in _lines(judge_turns(load_suite("suite.yaml"), turns, {}, "now"))
