"""The image: its steps run on a home-made base, and what they make is run."""

from __future__ import annotations

import json
import re
import subprocess
import time
import tomllib
from typing import Any

import a2a_eval_proxy
import pytest
from deployment.containers import DEPLOY, IMAGE, REPOSITORY, Podman
from e2e.provision import python_environment
from packaging.requirements import Requirement
from packaging.version import Version

DOCKERFILE = DEPLOY / "Dockerfile"
LOCKED_EXTRAS = ("grpc", "postgres")
HARDENED = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges")


def test_hadolint_has_nothing_against_it() -> None:
    program = python_environment("kubernetes").with_name("hadolint")
    told = subprocess.run([program, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "")


def test_its_base_is_pinned_and_its_version_is_this_one() -> None:
    text = DOCKERFILE.read_text("utf-8")
    assert re.search(r"^ARG BASE=\S+:\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert f"ARG VERSION={a2a_eval_proxy.__version__}\n" in text
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}


def test_what_is_locked_is_what_the_project_asks_for() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in LOCKED_EXTRAS for line in extras[name])]
    found = re.findall(r"^(\S+)==(\S+)", (DEPLOY / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    locked = {re.sub(r"\[.*", "", name): Version(version) for name, version in found}
    for asked in map(Requirement, lines):
        version = locked.get(asked.name.lower())
        assert version in asked.specifier if version else False, f"deploy/requirements.txt lacks {asked}: run deploy/lock"


@pytest.fixture(scope="module")
def config(podman: Podman) -> dict[str, Any]:
    (image,) = json.loads(podman("image", "inspect", IMAGE))
    return image


@pytest.mark.slow
def test_what_it_says_of_itself(config: dict[str, Any]) -> None:
    assert config["Config"]["User"] == "65532:65532"
    assert config["Config"]["Entrypoint"] == ["a2a-eval-proxy"]
    assert config["Config"]["Volumes"] == {"/data": {}}
    assert config["Healthcheck"]["Test"][0] == "CMD"
    labels = {name.rpartition(".")[2]: text for name, text in config["Labels"].items() if "opencontainers" in name}
    assert labels["title"] == "a2a-eval-proxy"
    assert labels["version"] == a2a_eval_proxy.__version__
    assert labels["licenses"] == "Apache-2.0"


@pytest.mark.slow
def test_it_runs_without_rights_on_a_file_system_it_cannot_write_to(podman: Podman) -> None:
    told = podman("run", "--rm", *HARDENED, "--user", "1000", IMAGE, "--version")
    assert told.strip() == f"a2a-eval-proxy, version {a2a_eval_proxy.__version__}"


@pytest.mark.slow
def test_nothing_in_it_installs_or_compiles(podman: Podman) -> None:
    programs = "[name for name in ('pip', 'pip3', 'gcc', 'cc', 'ld', 'make') if shutil.which(name)]"
    modules = "[name for name in ('pip', 'ensurepip', 'hatchling') if importlib.util.find_spec(name)]"
    look = f"import shutil, importlib.util; print({programs}, {modules})"
    assert podman("run", "--rm", "--entrypoint", "python3", IMAGE, "-c", look).strip() == "[] []"


@pytest.mark.slow
def test_it_serves_and_ends_in_order(
    podman: Podman, config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"UPSTREAM": "http://127.0.0.1:9", "LISTEN": "127.0.0.1:0", "ADMIN": "127.0.0.1:0", "OTLP": "off"}
    given = [f"--env=A2A_EVAL_PROXY_{name}={value}" for name, value in variables.items()]
    began = time.monotonic()
    with podman.start("run", "--rm", "--name=served", *HARDENED, *given, IMAGE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        seconds = time.monotonic() - began
        if "ready" in first:
            podman("kill", "--signal", "TERM", "served")
        rest = process.stdout.read()
    assert "a2a-eval-proxy ready" in first, rest
    assert "stopping" in rest
    assert process.returncode == 0
    with capsys.disabled():
        print(f"\nimage: {config['Size'] / 1e6:.0f} MB with its base; ready {seconds:.1f} s after `podman run`")
