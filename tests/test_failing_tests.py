"""A test that fails, or that takes too long, costs itself: the run goes through, on every worker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent

PLANTED = """
import asyncio
import gc
import time
import traceback

import pytest
from support.running import untimed


class Garbage:
    left = 300

    def __init__(self):
        self.me = self

    def __del__(self):
        if Garbage.left:
            Garbage.left -= 1
            Garbage()
            try:
                {"a": 1}["b"]["c"] + {"x": 1}["y"]["z"]
            except KeyError:
                traceback.format_exc()


def nested(leaf, depth=100):
    for _ in range(depth):
        leaf = {"a": [leaf]}
    return leaf


def test_deep_assertion_among_garbage_that_formats_tracebacks():
    gc.set_threshold(20)
    Garbage()
    assert nested(1) == nested(2)


@pytest.mark.timeout(1)
async def test_time_out():
    await asyncio.Event().wait()


def test_time_out_leaves_others_alone():
    pass


@pytest.mark.timeout(2)
def test_preparations_have_their_own_time():
    with untimed():
        time.sleep(3)


@pytest.mark.timeout(1)
def test_time_out_after_preparations():
    with untimed():
        pass
    time.sleep(60)
"""


def test_each_failure_costs_one_test(tmp_path: Path) -> None:
    (tmp_path / "test_planted.py").write_text(PLANTED, "utf-8")
    arguments = [
        "-q",
        "-n",
        "2",
        "-c",
        TESTS.parent / "pyproject.toml",
        "--rootdir",
        tmp_path,
        "-p",
        "conftest",
        tmp_path,
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        env=os.environ | {"PYTHONPATH": str(TESTS), "PYTEST_ADDOPTS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "INTERNALERROR" not in run.stdout
    assert re.search(r"^3 failed, 2 passed", run.stdout, re.MULTILINE), run.stdout + run.stderr
    assert "AssertionError: assert {'a'" in run.stdout
    assert "Timeout (>1.0s)" in run.stdout
