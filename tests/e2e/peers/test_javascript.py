"""The recorder for JavaScript: its own tests, its package, and the agents of its page with both generations of SDK."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import a2a_tool_capture
import pytest
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_tool_capture import CaptureClient
from e2e.frameworks.pages import PAGES
from e2e.frameworks.scripted_model import ANSWER, QUESTION
from e2e.frameworks.serving import until_served
from support.checking import check
from support.linked import EXTENSION
from support.patience import PATIENCE_S
from support.prefork import run
from support.processes import ChildProcess
from support.provision import node_environment

pytestmark = [
    pytest.mark.installs,
    pytest.mark.skipif(shutil.which("node") is None, reason="no node"),
    pytest.mark.about("extension/js", "extension/examples", "extension/docs/frameworks"),
]

PACKAGE = EXTENSION / "js"
PAGE = (PAGES / "javascript.md").read_text("utf-8")
GENERATIONS = {"agent.mjs": "a2a-js-1", "agent03.mjs": "a2a-js-03"}


def test_the_recorder_passes_its_tests() -> None:
    done = subprocess.run(["node", "--test", "test/"], cwd=PACKAGE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_package_has_our_version_and_needs_no_other() -> None:
    content = json.loads((PACKAGE / "package.json").read_text("utf-8"))
    assert "dependencies" not in content
    assert content["version"] == a2a_tool_capture.__version__


def program(name: str, mark: str, port: int) -> str:
    """The agent of the page before (`-`) or after (`+`) its author used the recorder, or the one that it names."""
    if name == "agent.mjs":
        (diff,) = re.findall(r"```diff\n(.*?)```", PAGE, re.DOTALL)
        text = "\n".join(line[1:] for line in diff.splitlines() if line[:1] in (" ", mark, ""))
    else:
        text = (EXTENSION / "examples" / name).read_text("utf-8")
    return text.replace("9999", str(port)).replace("@a2a-js/sdk", GENERATIONS[name])


@contextmanager
def served(name: str, mark: str, folder: Path) -> Iterator[str]:
    """The URL of an agent of the page, in a folder with what it imports."""
    modules = folder / "node_modules"
    modules.mkdir()
    for package in (node_environment() / "node_modules").iterdir():
        (modules / package.name).symlink_to(package)
    (modules / "a2a-tool-capture").symlink_to(PACKAGE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    (folder / name).write_text(program(name, mark, port), "utf-8")
    with ChildProcess(["node", name], cwd=folder) as agent:
        until_served(f"http://127.0.0.1:{port}", agent)
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("name", GENERATIONS)
async def test_the_lines_of_the_page_make_an_agent_conform(name: str, tmp_path: Path) -> None:
    questions = {order: QUESTION.format(order=order, city="Oslo") for order in ("ORD-1001", "ORD-1002")}
    with served(name, "+", tmp_path) as url:
        report = await check(url, questions["ORD-1001"])
        problems = [problem.message for result in report.results for problem in result.problems]
        assert (report.verdict, problems) == (CheckVerdict.CONFORMING, [])
        for streaming in (True, False):
            async with CaptureClient(url, streaming=streaming, timeout_s=PATIENCE_S) as client:
                conversation = client.conversation()
                for order, question in questions.items():
                    turn: Any = await conversation.send(question)
                    assert (turn.text, turn.findings) == (ANSWER, ())
                    assert [(call.name, call.arguments, json.loads(call.result)) for call in turn.tool_calls] == [
                        ("look_up", {"order_id": order}, {"order": order, "status": "shipped"}),
                        ("delivery_days", {"city": "Oslo"}, 3),
                    ]


@pytest.mark.frameworks
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_commands_of_the_page(tmp_path: Path, port: int) -> None:
    """With the newest versions, and the path of this checkout in place of `.`, as the page says."""
    shown = "".join(re.findall(r"^```(?:console|sh)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    *installs, start = shown.replace("$ ", "").replace("./extension", str(EXTENSION)).replace("\\\n", "").splitlines()
    agent = program("agent.mjs", "+", port).replace(GENERATIONS["agent.mjs"], "@a2a-js/sdk")
    (tmp_path / "agent.mjs").write_text(agent, "utf-8")
    for command in installs:
        subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    with ChildProcess(["bash", "-c", f"exec env {start}"], cwd=tmp_path) as child:
        until_served(f"http://127.0.0.1:{port}", child)
        report = await check(f"http://127.0.0.1:{port}", QUESTION.format(order="ORD-1001", city="Oslo"))
    assert report.verdict is CheckVerdict.CONFORMING


def test_doctor_names_the_recorder_where_it_is_missing(tmp_path: Path) -> None:
    with served("agent.mjs", "-", tmp_path) as url:
        message = ("--message", QUESTION.format(order="ORD-1001", city="Oslo"))
        doctor = run("doctor", url, *message, "--trace-wait", "1", "--otlp", "127.0.0.1:0")
    assert doctor.returncode == 1, doctor
    assert "npm install /" in doctor.stdout
