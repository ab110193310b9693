"""The evaluation sets of UiPath's own packages, as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agents.expected_agent import expected_agent
from agents.serving import ServerThread
from support.prefork import run
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


def test_a_set_runs_as_it_is(sets, tmp_path):
    """The weather tools: without a model the run is refused, with one that does not answer it fails for that alone."""
    path = next(item for item in sets if "weather_tools" in item.parts)
    calls = {turn.user: turn.expect.tool_calls or () for case in import_suite(path).suite.cases for turn in case.turns}
    unset = dict.fromkeys(("A2A_EVAL_PROXY_JUDGE_MODEL", "A2A_EVAL_PROXY_JUDGE_API_KEY", "OPENAI_API_KEY"), "")
    with ServerThread(lambda url: expected_agent(url, calls)) as server:
        arguments = ("run", path, "--agent", server.url, "--store", "a.db")
        refused = run(*arguments, cwd=tmp_path, **unset)
        assert refused.returncode == 2
        assert "a judge is needed for llm_judge_trajectory" in refused.stderr
        model = {"A2A_EVAL_PROXY_JUDGE_MODEL": "m", "A2A_EVAL_PROXY_JUDGE_BASE_URL": "http://127.0.0.1:1/v1"}
        judged = run(*arguments, "--run", "x", cwd=tmp_path, **{**unset, **model})
    assert judged.returncode == 1
    for name in ("tool_call_args", "tool_call_count", "tool_call_order"):
        assert f"{name} failed" not in judged.stdout
        assert name in judged.stdout
    assert "llm_judge_trajectory" in judged.stdout
