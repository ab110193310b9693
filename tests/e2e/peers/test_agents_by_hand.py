"""The agents without a library of extension/docs/frameworks/by-hand.md."""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path

import pytest
from a2a_eval_proxy.check.rules.base import CheckVerdict
from a2a_tool_capture import URI, read_tool_calls
from e2e.frameworks.pages import PAGES
from e2e.frameworks.serving import until_served
from support.checking import check
from support.processes import ChildProcess

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
    (code,) = re.findall(r"```java\n(.*?)```", PAGE, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (tmp_path / "Agent.java").write_text(code.replace("9999", str(port)), "utf-8")
    with ChildProcess(["java", "Agent.java"], cwd=tmp_path) as agent:
        until_served(f"http://127.0.0.1:{port}", agent)
        report = await check(f"http://127.0.0.1:{port}", QUESTION)
    problems = [problem.message for result in report.results for problem in result.problems]
    assert (report.verdict, problems) == (CheckVerdict.CONFORMING, [])
