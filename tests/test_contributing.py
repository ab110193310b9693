"""What the page for contributors shows: three files and their tests, added to copies of the packages."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"`([\w/]+\.py)`[^\n]*:\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PACKAGES = ("evaluators/tool_call_evaluators", "proxy/a2a_eval_proxy")


def test_what_the_page_calls_is_there() -> None:
    assert (ROOT / ".pre-commit-config.yaml").exists()
    commands = [shlex.split(command) for command in re.findall(r"(?:^\$ |`)(make [^`#\n]+)", PAGE, re.MULTILINE)]
    assert len(commands) > 10
    for command in commands:
        done = subprocess.run([*command, "--dry-run"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_what_the_page_adds_works(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shown = dict(BLOCK.findall(PAGE))
    assert len(shown) == 4
    for name, text in shown.items():
        path = tmp_path / name
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    folders = os.pathsep.join(str(tmp_path / package.partition("/")[0]) for package in PACKAGES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    env = os.environ | {"PYTHONPATH": folders}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
