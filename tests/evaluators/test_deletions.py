"""An evaluator, or the importer of a tool, can be deleted: without it, the rest imports, reads suites and evaluates."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tool_call_evaluators
from tool_call_evaluators.plugins import tool_names

PACKAGE = Path(tool_call_evaluators.__file__).parent
MODULES = ["metrics/budget.py", "metrics/tool_efficiency.py", "judged/tasks.py"]
TOOLS = [name.replace("-", "_") for name in tool_names()]

SMOKE = """
import importlib, pkgutil, sys

folder, module, *gone = sys.argv[1:]
sys.path.insert(0, folder)
import tool_call_evaluators
from tool_call_evaluators import EvalCase, evaluator_names, experiment, get_evaluator, parse_suite
from tool_call_evaluators.importers import FORMATS, import_text

assert tool_call_evaluators.__file__.startswith(folder)
for found in pkgutil.walk_packages(tool_call_evaluators.__path__, "tool_call_evaluators."):
    importlib.import_module(found.name)
assert module not in sys.modules
assert not {*gone} & {*evaluator_names(), *FORMATS}
assert "tool_trajectory" in evaluator_names()
parse_suite("{suite: s, evaluators: [tool_trajectory]}")
case = EvalCase(tool_calls=[{"name": "search"}], expected_tool_calls=[{"name": "search"}])
assert get_evaluator("tool_trajectory").evaluate(case).score == 1.0
imported = import_text('suite: s\\nevaluators: [tool_trajectory]\\ncases: [{id: a, turns: [{user: Hi}]}]')
assert experiment(imported.suite, lambda case: {"output": "Hello", "toolCalls": []}).conversations
"""


def without(part: str, module: str, gone: list[str], folder: Path) -> None:
    copy = folder / "tool_call_evaluators"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    unwanted = copy / part
    shutil.rmtree(unwanted) if unwanted.is_dir() else unwanted.unlink()
    command = [sys.executable, "-c", SMOKE, str(folder), module, *gone]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("part", MODULES)
def test_the_rest_works_without_an_evaluator(part: str, tmp_path: Path) -> None:
    classes = {name: tool_call_evaluators.evaluator_class(name) for name in tool_call_evaluators.evaluator_names()}
    module = f"tool_call_evaluators.{part.removesuffix('.py').replace('/', '.')}"
    gone = [name for name, cls in classes.items() if cls.__module__ == module]
    assert gone
    without(part, module, gone, tmp_path)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_rest_works_without_an_importer(tool: str, tmp_path: Path) -> None:
    part = f"importers/{tool}" if (PACKAGE / "importers" / tool).is_dir() else f"importers/{tool}.py"
    without(part, f"tool_call_evaluators.importers.{tool}", [tool.replace("_", "-")], tmp_path)
