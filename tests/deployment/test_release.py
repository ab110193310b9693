"""What a public forge reads: workflows whose steps run anywhere, forms, and the check before a release."""

from __future__ import annotations

import datetime as dt
import os
import re
import runpy
import shutil
from pathlib import Path

import pytest
import yaml
from deployment.containers import REPOSITORY

FORGE = REPOSITORY / ".github"
WORKFLOWS = sorted((FORGE / "workflows").glob("*.yml"))
RELEASE = runpy.run_path(str(REPOSITORY / ".ci/release.py"))
TODAY = dt.date(2026, 12, 1)


def test_steps_of_workflows_are_targets_and_scripts_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text("utf-8"), re.MULTILINE))
    seen = set()
    for workflow in WORKFLOWS:
        for job in yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values():
            for step in job["steps"]:
                command = step.get("run", "")
                assert set(re.findall(r"\bmake ([a-z]+)", command)) <= targets
                for interpreter, script in re.findall(r"(python3? )?(\.ci/\S+)", command):
                    seen.add(script)
                    assert (REPOSITORY / script).is_file()
                    assert interpreter or os.access(REPOSITORY / script, os.X_OK)
    assert seen == {
        path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / ".ci").iterdir() if path.is_file()
    }


# ── the check before a release ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What states the version, ready to be released as v0.1.0 on `TODAY`."""
    for name in {place.strip() for place in RELEASE["PLACES"]} | {"README.md", "pyproject.toml"}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    replace(tmp_path / "README.md", "install ./a2a-eval-proxy", "install a2a-eval-proxy")
    replace(tmp_path / "CHANGELOG.md", "## 0.1.0 (unreleased)", f"## 0.1.0 ({TODAY})")
    with (tmp_path / "pyproject.toml").open("a") as file:
        file.write('[project.urls]\nRepository = "https://forge.example/a2a-eval-proxy"\n')
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def test_this_version_is_stated_alike_everywhere(checkout: Path) -> None:
    assert RELEASE["problems"](checkout, "v0.1.0", TODAY) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("deploy/Dockerfile", "VERSION=0.1.0", "VERSION=0.0.9", "deploy/Dockerfile states 0.0.9, not 0.1.0"),
        ("deploy/helm/a2a-eval-proxy/Chart.yaml", "appVersion: 0.1.0", "appVersion: 0.2.0", "Chart.yaml states 0.2.0"),
        ("CHANGELOG.md", str(TODAY), "unreleased", "write '## 0.1.0 (2026-12-01)'"),
        ("README.md", "install a2a-eval-proxy", "install ./a2a-eval-proxy", "README.md installs from a checkout"),
    ],
)
def test_what_stands_in_the_way_of_a_release_is_named(
    checkout: Path, file: str, old: str, new: str, problem: str
) -> None:
    replace(checkout / file, old, new)
    (found,) = RELEASE["problems"](checkout, "v0.1.0", TODAY)
    assert problem in found


def test_a_tag_of_another_version_is_refused(checkout: Path) -> None:
    assert len(RELEASE["problems"](checkout, "v0.2.0", TODAY)) == len(RELEASE["PLACES"]) + 1
    assert "is no tag of a version" in RELEASE["problems"](checkout, "0.1", TODAY)[0]


def test_the_notes_of_a_release_are_its_section_of_the_changelog(tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 0.2.0 (unreleased)\n\n- b\n\n## 0.1.0 (2026-12-01)\n\n- a\n"
    )
    assert RELEASE["notes"](tmp_path, "v0.1.0") == "- a\n"
    with pytest.raises(ValueError, match=r"no section for v0\.3\.0"):
        RELEASE["notes"](tmp_path, "v0.3.0")
