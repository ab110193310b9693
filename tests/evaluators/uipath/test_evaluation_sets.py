"""The evaluation sets of UiPath's own packages, as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.provision import source_of
from tool_call_evaluators import parse_suite
from tool_call_evaluators.importers import import_suite
from tool_call_evaluators.suite.writing import suite_text

pytestmark = [pytest.mark.installs, pytest.mark.about("evaluators/tool_call_evaluators/importers")]

SETS = 27
"""The number of evaluation sets in the packages."""

CUSTOM = ("Classification", "BalancedAccuracy", "CSV", "csv-", "Routing", "Escalation", "Operator", "LegacyLine",
          "ContextPrecision", "Faithfulness")  # fmt: skip
"""In the names of evaluators that are Python code of a sample, compare files or whole data sets, or read retrieved
documents."""

NOTED = ("lineDelimiter", "line_delimiter", "lineByLine", "ignoreCase", "maxTokens", "selectedEntrypoint",
         "no tool is simulated here")  # fmt: skip
"""Keys without an equivalent here."""


@pytest.fixture(scope="module")
def sets() -> list[Path]:
    packages = source_of("uipath"), source_of("uipath-langchain")
    return [path for package in packages for path in sorted(package.rglob("eval-sets/*.json"))]


def test_all_are_read_whole(sets):
    assert len(sets) == SETS
    for path in sets:
        imported = import_suite(path)
        assert imported.format == "uipath", path
        evaluations = json.loads(path.read_text("utf-8"))["evaluations"]
        left_out = [note for note in imported.notes if "has no inputs" in note]
        assert len(imported.suite.cases) == len(evaluations) - len(left_out), path
        for note in imported.notes:
            known = ("has no inputs", "prompt of", "model of", "line_by_line", "of several inputs", *NOTED)
            assert any(word in note for word in (*known, *CUSTOM)), (path, note)
        assert parse_suite(suite_text(imported.suite)) == imported.suite
