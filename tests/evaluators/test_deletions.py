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
PARTS = ["metrics/budget.py", "judged/tasks.py", "importers/arksim", "importers/dokimos"]
"""Two of either kind: all are found alike."""
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


@pytest.mark.parametrize("part", PARTS)
def test_the_rest_works_without_an_evaluator_or_an_importer(part: str, tmp_path: Path) -> None:
    copy = tmp_path / "tool_call_evaluators"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / part) if (copy / part).is_dir() else (copy / part).with_suffix(".py").unlink()
    module = f"tool_call_evaluators.{part.removesuffix('.py').replace('/', '.')}"
    classes = {name: tool_call_evaluators.evaluator_class(name) for name in tool_call_evaluators.evaluator_names()}
    gone = [name for name, cls in classes.items() if cls.__module__ == module]
    gone += [tool.replace("_", "-") for tool in TOOLS if part == f"importers/{tool}"]
    assert gone
    command = [sys.executable, "-c", SMOKE, str(tmp_path), module, *gone]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
