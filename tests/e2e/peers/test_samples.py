"""Agents of the public A2A samples, unchanged, with a scripted model: the commands of their page show their calls.

`A2A_SAMPLES` names a git directory that has them; without it, they are fetched from GitHub.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from agents.serving import ServerThread
from e2e.frameworks import scripted_model
from e2e.frameworks.page_code import section
from e2e.frameworks.scripted_model import SCRIPTS
from e2e.frameworks.serving import until_served
from support.ports import held_ports
from support.prefork import COMMAND
from support.processes import ChildProcess
from support.provision import resolved_python

pytestmark = [pytest.mark.frameworks, pytest.mark.installs, pytest.mark.slow, pytest.mark.timeout(600)]

REPOSITORY, COMMIT = "https://github.com/a2aproject/a2a-samples", "6603ba3f2c31a7ef33e70b9d8b5b5f8be42ac9a3"
MODEL = {  # which each sample reads in its own way
    "GOOGLE_API_KEY": "none",
    "GEMINI_API_KEY": "none",
    "OPENAI_API_KEY": "none",
    "LITELLM_MODEL": "openai/gpt-4.1",
    "model_source": "openai",
    "TOOL_LLM_NAME": "gpt-4.1",
    "HTTPS_PROXY": "http://127.0.0.1:9",  # the samples' tools reach no service
    "NO_PROXY": "127.0.0.1",
}


@dataclass(frozen=True)
class Sample:
    """A section of the page: what it installs, its folder, how it starts, and what is asked."""

    folder: str
    requirements: list[str]
    variables: dict[str, str]
    command: list[str]
    question: str


def samples() -> Iterator[Sample]:
    for sample in section("Samples").split("\n### ")[1:]:
        (console,) = re.findall(r"```console\n(.*?)```", sample, re.DOTALL)
        (question,) = re.findall(r"Ask it `([^`]+)`", sample)
        enter, install, start = (
            shlex.split(line.removeprefix("$ ")) for line in console.replace("\\\n", " ").strip().splitlines()
        )
        values = [word for word in start if re.fullmatch(r"[A-Z_]+=.*", word)]
        variables = dict(value.split("=", 1) for value in values)
        yield Sample(enter[1], install[2:], variables, start[len(values) :], question)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if given := os.environ.get("A2A_SAMPLES"):
        return Path(given)
    folder = tmp_path_factory.mktemp("a2a-samples")
    command = ["git", "clone", "--quiet", "--bare", "--filter=blob:none", REPOSITORY, str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("the samples of A2A cannot be fetched")
    return folder


def unpacked(repository: Path, sample: str, folder: Path) -> Path:
    """Write the sample's Python files into `folder`."""
    git, root = ["git", "--git-dir", str(repository)], f"samples/python/agents/{sample}"
    listed = subprocess.run([*git, "ls-tree", "-r", "--name-only", COMMIT, root], check=True, capture_output=True)
    for name in listed.stdout.decode().split():
        if name.endswith(".py"):
            shown = subprocess.run([*git, "show", f"{COMMIT}:{name}"], check=True, capture_output=True)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(shown.stdout)
    return folder / root


@pytest.mark.parametrize("sample", [*samples()], ids=lambda sample: sample.folder)
def test_the_commands_of_the_page_show_the_calls_of_a_sample(sample: Sample, repository: Path, tmp_path: Path) -> None:
    folder = unpacked(repository, sample.folder, tmp_path)
    python = resolved_python(tmp_path / "environment", sample.requirements)
    with ServerThread(lambda url: scripted_model.application()) as model, held_ports(2) as (port, receiver_port):
        otlp = f"127.0.0.1:{receiver_port}"
        command = [str(python.parent / sample.command[0]), *sample.command[1:-1], str(port)]
        environment = (
            MODEL
            | sample.variables
            | {
                "PYTHONPATH": "",
                "PATH": f"{python.parent}:{os.environ['PATH']}",
                "GOOGLE_GEMINI_BASE_URL": model.url,
                "OPENAI_API_BASE": f"{model.url}/v1",
                "TOOL_LLM_URL": f"{model.url}/v1",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{otlp}",
            }
        )
        with ChildProcess(command, cwd=folder, environment=environment) as agent:
            until_served(f"http://127.0.0.1:{port}", agent)

            def run(*words: str) -> subprocess.CompletedProcess[str]:
                return subprocess.run([COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

            asked = ["--message", sample.question, "--otlp", otlp, "--trace-wait", "20"]
            doctor = run("doctor", f"http://127.0.0.1:{port}", *asked)
            init = run("init", "--agent", f"http://127.0.0.1:{port}", *asked)
            tested = run("run", "suite.yaml", "--otlp", otlp, "--trace-wait", "20")
    calls = [call.name for step in SCRIPTS[sample.question] for call in step]
    lines = doctor.stdout.splitlines()
    assert [line.strip().partition("(")[0] for line in lines if line.startswith("  ")] == calls, doctor
    assert (doctor.returncode, lines[-1]) == (0, "all seen")
    assert init.returncode == 0, init
    assert [name for name in calls if f"name: {name}" in (tmp_path / "suite.yaml").read_text("utf-8")] == calls
    assert tested.returncode == 0, tested
