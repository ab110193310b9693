"""What CI systems run: the steps of the GitHub action and of the GitLab job by a shell, and the compose file's reading.

No runner of either system can run here: a test stands in for what it does between the steps.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from deployment.containers import DEPLOY
from packaging.requirements import Requirement
from support.linked import link
from support.processes import ChildProcess
from support.provision import UnavailableError, python_with

CI = DEPLOY / "ci"
ACTION = yaml.safe_load((CI / "action.yml").read_text("utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
JOB = yaml.safe_load((CI / "gitlab.yml").read_text("utf-8"))[".a2a-eval-proxy"]
INPUT = re.compile(r"\$\{\{ inputs\.([a-z]+) \}\}")

REFUND = """\
suite: shop
evaluators: [tool_trajectory]
cases:
  - id: order-status
    turns:
      - user: Where is order ORD-1001?
        expect: {tool_calls: [{name: lookup_order, arguments: {order_id: ORD-1001}}]}
  - id: partial-refund
    turns:
      - user: Please refund 14.50 EUR of order ORD-1002, one mug came broken.
        expect:
          tool_calls:
            - {name: lookup_order, arguments: {order_id: ORD-1002}}
            - {name: issue_refund, arguments: {order_id: ORD-1002, amount_eur: 14.50}}
"""

pytestmark = [
    pytest.mark.installs,
    pytest.mark.timeout(600),
    pytest.mark.about("deploy/ci", ".ci", ".github"),
]  # the first has the package installed


def agent(port: int = 0) -> ChildProcess:
    """The sample agent, with its weaknesses."""
    return ChildProcess([sys.executable, "-m", "a2a_eval_proxy.features.demo.agent", "--port", str(port)])


class Runner:
    """What GitHub's runner does for the steps of the action: variables, inputs, and the files that steps append to."""

    def __init__(self, temp: Path, workspace: Path) -> None:
        self.workspace = workspace
        self.summary = workspace / "summary.md"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("A2A_EVAL_PROXY_")}
        self._environment = clean | {
            "RUNNER_TEMP": str(temp),
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(CI),
            "GITHUB_WORKSPACE": str(workspace),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }

    def step(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step, as `shell: bash` is defined. Its script must be free of expressions."""
        step = STEPS[name]
        script = self.workspace / "script.sh"
        script.write_text(step["run"])
        values = {key: spec["default"] for key, spec in ACTION["inputs"].items()} | inputs
        given = {key: INPUT.sub(lambda found: values[found[1]], text) for key, text in step["env"].items()}
        return shell(["bash", "--noprofile", "--norc", "-eo", "pipefail", script], self._environment | given, self)

    def job(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the lines of the GitLab job in one shell that ends at the first error, as GitLab's runner does."""
        environment = self._environment | JOB["variables"] | variables
        return shell(["bash", "-ec", "\n".join(JOB["script"])], environment, self)


def shell(command: list[str | Path], environment: dict[str, str], runner: Runner) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment, cwd=runner.workspace, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def temp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runner's directory, after the step that installs.

    pip builds and installs both distributions from the checkout. What they require comes from the environment of this
    suite: to download and unpack seventy wheels belongs to the test of the image.
    """
    try:
        builder = python_with(DEPLOY / "build-requirements.txt")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("runner")
    required = linked_requirements(tmp_path_factory.mktemp("required"))
    builders = map(str, builder.parents[1].glob("lib/*/site-packages"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(required), *builders]))
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # pip reads this variable the other way round: no isolation
        patch.setenv("PIP_NO_COMPILE", "1")  # Python compiles what is imported
        done = Runner(folder, tmp_path_factory.mktemp("workspace")).step("Install")
    assert done.returncode == 0, done.stderr
    (installed,) = folder.glob("a2a-eval-proxy/lib/*/site-packages")
    (installed / "required.pth").write_text(f"{required}\n", "utf-8")
    return folder


def linked_requirements(folder: Path) -> Path:
    """The folder, with links to the packages that ours require, without extras and the tools of developers."""
    ours = "a2a-eval-proxy", "a2a-tool-capture"
    asked = [requirement for name in ours for requirement in map(Requirement, distribution(name).requires or ())]
    return link(
        folder,
        (one for one in asked if one.name not in ours and (not one.marker or one.marker.evaluate({"extra": ""}))),
    )


@pytest.fixture
def runner(temp: Path, tmp_path: Path) -> Runner:
    shutil.copy(CI / "suite.yaml", tmp_path)
    (tmp_path / "refund.yaml").write_text(REFUND)
    (tmp_path / ".a2a-eval-proxy").symlink_to(temp / "a2a-eval-proxy")
    return Runner(temp, tmp_path)


# ── the action ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_action_is_composite_and_no_input_becomes_part_of_a_script() -> None:
    assert ACTION["runs"]["using"] == "composite"
    scripts = [step for step in STEPS.values() if "run" in step]
    assert {step["shell"] for step in scripts} == {"bash"}
    assert not any("${{" in step["run"] for step in scripts)
    used = {name for step in STEPS.values() for name in INPUT.findall(json.dumps(step))}
    assert used == set(ACTION["inputs"])
    assert [step["uses"] for step in STEPS.values() if "uses" in step] == ["actions/upload-artifact@v4"]
    assert STEPS["Keep the report"]["if"] == "always()"


@pytest.mark.slow
def test_the_action_waits_for_an_agent_that_starts_later_and_passes_it(runner: Runner) -> None:
    with ThreadPoolExecutor(1) as thread:
        with socket.create_server(("127.0.0.1", 0)) as nothing_yet:
            port = nothing_yet.getsockname()[1]
            url = f"http://127.0.0.1:{port}"
            waiting = thread.submit(runner.step, "Wait for the agent", agent=url)
            nothing_yet.accept()[0].close()  # the first attempt
        with agent(port):
            waited = waiting.result()
            done = runner.step("Run", agent=url, report="out")
    assert (waited.returncode, waited.stderr) == (0, "")
    assert "declares tool-call-capture" in waited.stdout
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed: shop" in runner.summary.read_text("utf-8")
    assert {"report.html", "junit.xml"} <= {path.name for path in (runner.workspace / "out").iterdir()}


# ── the GitLab job ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_the_job_fails_and_leaves_what_gitlab_shows(runner: Runner) -> None:
    with agent() as process:
        url = process.wait_for(r"ready at (?P<url>\S+)")["url"]
        done = runner.job(A2A_EVAL_PROXY_AGENT=url, A2A_EVAL_SUITE="refund.yaml")
    assert done.returncode == 1
    assert "declares tool-call-capture" in done.stdout
    artifacts = JOB["artifacts"]
    assert artifacts["when"] == "always"
    junit = ET.parse(runner.workspace / artifacts["reports"]["junit"])
    assert [case.get("name") for case in junit.findall("testsuite/testcase[failure]")] == ["partial-refund"]
    assert (runner.workspace / artifacts["paths"][0] / "report.html").is_file()


# ── the compose file ────────────────────────────────────────────────────────────────────────────────────────

COMPOSE = CI / "compose.yaml"


def test_its_services_are_restricted_and_its_settings_are_settings_of_the_commands() -> None:
    from a2a_eval_proxy.cli.options import EvaluateOptions
    from a2a_eval_proxy.settings.options import load
    from a2a_eval_proxy.settings.settings import Settings

    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    assert set(services) == {"agent", "proxy", "report"}
    assert all(service["read_only"] and service["cap_drop"] == ["ALL"] for service in services.values())
    serve = load(Settings, {}, services["proxy"]["environment"] | {"A2A_EVAL_PROXY_UPSTREAM": "http://agent:9999"})
    evaluate = load(EvaluateOptions, {}, services["report"]["environment"])
    assert (*evaluate.suite, evaluate.run) == (serve.suite, serve.run) == ("/suite.yaml", "traffic")
    assert evaluate.report == Path("/data/report")
