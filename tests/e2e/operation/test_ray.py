"""`evaluate --engine ray`, with a real Ray in an environment of its own: the same results as in process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from agents.serving import ServerThread
from judges.fake_api import KEY, MODEL, FakeApi
from support.prefork import run
from support.provision import python_environment
from support.stored_runs import store_turns
from support.turn_samples import many_turns

TURNS = 60  # of more than one task

PLUGIN = """\
import asyncio, os
from tool_call_evaluators import metric

@metric()
def computed(case) -> float:
    return 1 / (1 + len(case.history))

@metric()
async def awaited(case) -> bool:
    await asyncio.sleep(0)
    return "9" in case.user_text

@metric()
def deadly(case) -> bool:
    os._exit(7)
"""
SUITE = """\
suite: again
plugins: [plugin.py]
judge: {base_url: "%s/v1", model: %s}
evaluators:
  - tool_error
  - computed
  - awaited
  - {external: {id: program, command: ["%s", program.py]}}
  - {helpfulness: {threshold: null}}
  - {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}
cases:
  - id: case-0
    turns: [{user: whatever}, {user: and then}]
    expect: {tool_calls: [{name: lookup_order, arguments: {order_id: ORD-0}}]}
  - id: case-1
    turns: [{user: Call me@example.com}, {user: and then}]
    evaluators: [tool_call_count, {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}]
    expect: {tool_calls: [{name: refund, arguments: {order_id: me@example.com}}]}
"""
pytestmark = [
    pytest.mark.installs,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.about("proxy/a2a_eval_proxy/features/ray.py", "tests/e2e/environments/ray.txt"),
]  # Ray takes a minute to start beside other load


def with_ray(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command where Ray is installed: in its own environment, with all that is importable here."""
    python = python_environment("ray")
    with TemporaryDirectory(prefix="ray-") as scratch:  # sockets are in there: the path has to be short
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "RAY_TMPDIR": scratch,
            "HOME": scratch,
            "A2A_EVAL_PROXY_JUDGE_API_KEY": KEY,
        }
        command = [python, "-m", "a2a_eval_proxy", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)


def exported(store: Path) -> str:
    done = run("export", "--store", store)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_results_are_those_of_one_process(tmp_path: Path) -> None:
    """Of evaluators that compute, wait, ask a judge, run a program, or evaluate conversations; redacted, too."""
    turns = list(many_turns(TURNS))
    turns[3]["tool_calls"][1]["arguments"]["order_id"] = "me@example.com"
    store_turns(tmp_path / "one.db", turns)
    shutil.copy(tmp_path / "one.db", tmp_path / "two.db")
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "program.py").write_text("import json, sys; print(len(json.load(sys.stdin)['case']['tool_calls']) / 4)")
    api = FakeApi()
    with ServerThread(api.app) as server:
        (tmp_path / "suite.yaml").write_text(SUITE % (server.url, MODEL, sys.executable))

        def evaluate(store: str, engine: str) -> tuple[str, str, int]:
            """What it says, what it keeps, and how many questions it asked."""
            asked, folder = len(api.requests), f"{store}-{engine}"
            options = ("--suite", "suite.yaml", "--engine", engine, "--redact", "email", "--report", folder)
            if engine == "ray":
                done = with_ray(tmp_path, "evaluate", "--store", store, *options)
                if "timed out during startup" in done.stderr:
                    pytest.skip("Ray has not started within the 30 s that it gives itself")
            else:
                done = run("evaluate", "--store", store, *options, cwd=tmp_path, A2A_EVAL_PROXY_JUDGE_API_KEY=KEY)
            assert done.returncode == 1, done.stderr
            report = (tmp_path / folder / "report.json").read_text("utf-8")
            return report, exported(tmp_path / store), len(api.requests) - asked

        alone = evaluate("one.db", "in-process")
        on_ray = evaluate("two.db", "ray")
        again = evaluate("two.db", "in-process")

    assert on_ray == alone
    assert on_ray[2] > TURNS // 2
    assert again[2] == 0, "what judges answered Ray's processes is kept"
    statuses = {result["status"] for line in on_ray[1].splitlines() for result in json.loads(line)["evaluations"]}
    assert statuses == {"passed", "failed", "scored", "skipped"}
