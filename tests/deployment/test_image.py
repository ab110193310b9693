"""The Dockerfile and what it installs, as texts; test_containers.py builds and runs it."""

from __future__ import annotations

import re
import subprocess
import tomllib

import a2a_eval_proxy
import pytest
from deployment.containers import DEPLOY, REPOSITORY
from deployment.rendering import python_of_tools
from packaging.requirements import Requirement
from packaging.version import Version

DOCKERFILE = DEPLOY / "Dockerfile"
LOCKED_EXTRAS = ("grpc", "postgres")


@pytest.mark.installs
def test_hadolint_has_nothing_against_it() -> None:
    program = python_of_tools().with_name("hadolint")
    told = subprocess.run([program, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (0, "")


def test_its_base_is_pinned_and_its_version_is_this_one() -> None:
    text = DOCKERFILE.read_text("utf-8")
    assert re.search(r"^ARG BASE=\S+:\S+@sha256:[0-9a-f]{64}$", text, re.MULTILINE)
    assert f"ARG VERSION={a2a_eval_proxy.__version__}\n" in text
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}


def test_what_is_locked_is_what_the_project_asks_for() -> None:
    content = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    extras = content["project"]["optional-dependencies"]
    lines = [
        *content["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"],
        *(line for name in LOCKED_EXTRAS for line in extras[name]),
    ]
    found = re.findall(r"^(\S+)==(\S+)", (DEPLOY / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    locked = {re.sub(r"\[.*", "", name): Version(version) for name, version in found}
    for asked in map(Requirement, lines):
        version = locked.get(asked.name.lower())
        assert version in asked.specifier if version else False, (
            f"deploy/requirements.txt lacks {asked}: run deploy/lock"
        )
