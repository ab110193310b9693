"""A plugin of pytest: tests that cost much, with the marker `about`, run where a file they are about has changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ABOUT_ALL = ("pyproject.toml", "tests/support", "tests/conftest.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="Also tests with the marker `about`, whatever changed.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests whose file is named on the command line run always."""
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    left_out = set()
    for item in items:
        marker = item.get_closest_marker("about")
        if marker and not config.option.everything and item.path not in named:
            own_file = str(item.path.relative_to(_ROOT))
            if not is_concerned((*marker.args, own_file), changed_files()):
                left_out.add(item)
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if changed_files() is not None and not terminalreporter.config.option.everything:
        since = f"since {_base()}; --everything runs the others too"
        terminalreporter.line(f"Tests with the marker `about` ran where a file they are about changed {since}")


def is_concerned(paths: Iterable[str], changed: Iterable[str] | None) -> bool:
    """Whether a changed file is one of `paths` or below one of them, as paths from the root; None: any may be."""
    if changed is None:
        return True
    folders = tuple(f"{path}/" for path in (*paths, *_ABOUT_ALL))
    return any(f"{file}/".startswith(folders) for file in changed)


@cache
def changed_files() -> frozenset[str] | None:
    """The files that the change touches, committed or not; None where git does not know."""
    base = _base()
    listed = base and _git("diff", "--name-only", base)
    return None if listed is None else frozenset(listed.splitlines())


@cache
def _base() -> str | None:
    """The commit that the change began from: that of CHANGED_SINCE, else where the branch left origin/main, else the
    one before the last."""
    if named := os.environ.get("CHANGED_SINCE"):
        return _git("rev-parse", "--short", f"{named}^{{commit}}")
    left = _git("merge-base", "HEAD", "origin/main")
    return _git("rev-parse", "--short", left if left and left != _git("rev-parse", "HEAD") else "HEAD~1")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
