"""The page extension/docs/frameworks/by-hand.md, and the agents without a library that it names."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_tool_capture import URI, read_tool_calls
from a2a_tool_capture.client import CaptureClient
from e2e.frameworks.pages import PAGES
from e2e.frameworks.serving import until_served
from support.checking import check
from support.linked import EXTENSION
from support.patience import PATIENCE_S
from support.processes import ChildProcess

pytestmark = pytest.mark.about("extension/examples", "extension/docs/frameworks")

PAGE = (PAGES / "by-hand.md").read_text("utf-8")
QUESTION = "Where is order ORD-1001?"
CALL = ("look_up", {"order_id": "ORD-1001"}, '{"order": "ORD-1001", "status": "shipped"}')


def test_what_goes_over_the_wire_is_read() -> None:
    declaration, artifact = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
    assert declaration["uri"] == URI
    reading = read_tool_calls(artifact)
    assert [(call.name, call.arguments, call.result) for call in reading.tool_calls] == [CALL]
    assert reading.findings == []


@pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK")
async def test_an_agent_in_java_conforms(tmp_path: Path) -> None:
    await conforms(tmp_path, "Agent.java", ["java", "Agent.java"])


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="no Go")
async def test_an_agent_in_go_conforms(tmp_path: Path) -> None:
    await conforms(tmp_path, "agent.go", ["./agent"], ["go", "build", "-o", "agent", "agent.go"])


async def conforms(folder: Path, name: str, command: list[str], build: list[str] | None = None) -> None:
    code = (EXTENSION / "examples" / name).read_text("utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (folder / name).write_text(code.replace("9999", str(port)), "utf-8")
    if build:
        subprocess.run(build, cwd=folder, check=True)
        command = [str(folder / command[0]), *command[1:]]
    with ChildProcess(command, cwd=folder) as agent:
        until_served(f"http://127.0.0.1:{port}", agent)
        report = await check(f"http://127.0.0.1:{port}", QUESTION)
        async with CaptureClient(f"http://127.0.0.1:{port}", timeout_s=PATIENCE_S) as client:
            turn = await client.send(QUESTION)
    problems = [problem.message for result in report.results for problem in result.problems]
    assert (report.verdict, problems) == (CheckVerdict.CONFORMING, [])
    assert [(call.name, call.arguments, json.loads(call.result or "")) for call in turn.tool_calls] == [
        (*CALL[:2], json.loads(CALL[2]))
    ]
