"""The examples of extension/README.md and extension/docs run and do what the text says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from a2a.server.events import EventQueue
from a2a.server.tasks import (
    TaskUpdater,
)
from a2a.types import AgentCard
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_tool_capture import (
    URI,
    CaptureClient,
    ToolCallRecorder,
    read_tool_calls,
)
from a2a_tool_capture.models import CapturedTurn
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict
from packaging.requirements import Requirement
from support.checking import check
from support.linked import beside_the_extension, brought_by
from support.patience import PATIENCE_S

EXTENSION = Path(__file__).parents[2] / "extension"
MOST_CHANGED_LINES = 5


def example(page: str, language: str, word: str) -> str:
    """The one code block of a page that contains `word`."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (EXTENSION / page).read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if word in block]
    return str(found)


def side(diff: str, mark: str) -> str:
    """One side of a diff: the lines that both sides have, and those marked with `mark`."""
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line[:1] in (" ", mark, ""))


async def test_five_changed_lines_make_a_stock_agent_report_its_calls() -> None:
    diff = example("README.md", "diff", "CapturingRequestHandler")
    added = [line for line in diff.splitlines() if line.startswith("+")]
    assert len(added) <= MOST_CHANGED_LINES

    def app(url: str, mark: str) -> Any:
        names: dict[str, Any] = {"__name__": "agent"}
        exec(side(diff, mark).replace("http://127.0.0.1:9999", url), names)
        return names["app"]

    for mark, calls in (("-", []), ("+", [("look_up", {"order_id": "ORD-1001"})])):
        with ServerThread(lambda url, mark=mark: app(url, mark)) as server:
            async with CaptureClient(server.url, timeout_s=PATIENCE_S) as client:
                assert client.declared is bool(calls)
                turn = await client.send("Where is my order?")
            if mark == "+":
                assert (await check(server.url)).verdict is CheckVerdict.CONFORMING
                turn = await turn_of_the_client_example(server.url)
        assert turn.text == "It is shipped."
        assert [(call.name, call.arguments) for call in turn.tool_calls] == calls


def test_the_example_runs_with_what_the_page_says_to_install(tmp_path: Path) -> None:
    """In an environment without the packages of this suite."""
    (extra, others) = re.findall(
        r"\$ pip install '\./extension\[(.+?)\]'(.*?)#", example("README.md", "console", "a2a-sdk")
    )[0]
    requirements = [*brought_by(extra), *map(Requirement, others.split())]
    packages = beside_the_extension(tmp_path, Path(sys.executable), requirements)
    code = side(example("README.md", "diff", "CapturingRequestHandler"), "+").replace("__main__", "agent")
    code += "from a2a_tool_capture import CaptureClient"
    done = subprocess.run([sys.executable, "-S", "-c", code], env=packages, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def turn_of_the_client_example(url: str) -> CapturedTurn:
    code = example("README.md", "python", "CaptureClient").replace("http://127.0.0.1:9999", url)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TOKEN", "secret")
        await eval(compile(code, "README.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    turn: CapturedTurn = names["turn"]
    return turn


@pytest.mark.statement(330)
async def test_calls_can_be_put_on_artifacts_by_hand() -> None:
    declaration, reporting = example("docs/frameworks/by-hand.md", "python", "agent_extension()").split("...\n")
    card = AgentCard()
    sent: list[Any] = []

    class Queue(EventQueue):
        async def enqueue_event(self, event: Any) -> None:
            sent.append(event)

    names: dict[str, Any] = {"card": card, "context": SimpleNamespace(requested_extensions={URI}), "parts": []}
    names["updater"] = TaskUpdater(Queue.__new__(Queue), "task", "context")
    await eval(compile(declaration + reporting, "by-hand.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert [extension.uri for extension in card.capabilities.extensions] == [URI]
    reading = read_tool_calls(MessageToDict(sent[0].artifact))
    assert [(call.name, call.arguments, call.result) for call in reading.tool_calls] == [
        ("search", {"q": "kettle"}, "KET-01")
    ]
    assert reading.findings == []


def test_calls_can_be_recorded_without_a_decorator() -> None:
    code = example("docs/servers.md", "python", "recorder.started")
    recorder = ToolCallRecorder()
    with recorder.request() as recording:
        exec(code, {"recorder": recorder})
    assert recording is not None
    told = {(call.name, str(call.arguments), call.result) for call in recording.tool_calls}
    assert told == {("search", "{'q': 'kettle'}", '["KET-01"]')}
    assert len(recording.tool_calls) == 3
