"""`run`, `evaluate` and `validate` with several suites, or a folder of them: one run, one verdict."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.cli.options import EvaluateOptions, RunOptions
from a2a_eval_proxy.cli.run_display import evaluate_and_show, run_and_show
from a2a_eval_proxy.features.demo.agent import run_agent
from click.testing import CliRunner
from tool_call_evaluators.suite import load_suite
from tool_call_evaluators.suite.model import CombinationError

ORDERS = """\
suite: orders
evaluators: [tool_error, tool_trajectory]
cases:
  - id: status
    tags: [smoke]
    turns:
      - user: Where is order ORD-1001?
        expect: {tool_calls: [{name: lookup_order, arguments: {order_id: ORD-1001}}]}
"""
REFUNDS = """\
suite: refunds
evaluators: [{tool_trajectory: {mode: recall}}]
gates: {tool_trajectory: 0.9}
cases:
  - id: partial-refund
    turns:
      - user: Please refund 14.50 EUR of order ORD-1002, one mug came broken.
        expect:
          tool_calls:
            - {name: lookup_order, arguments: {order_id: ORD-1002}}
            - {name: issue_refund, arguments: {order_id: ORD-1002, amount_eur: 14.5}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "orders.yaml").write_text(ORDERS)
    (folder / "refunds.yml").write_text(REFUNDS)
    (folder / "settings.yaml").write_text("suite: suites/orders.yaml\nstore: turns.db\n")
    (folder / "notes.txt").write_text("no YAML")
    return folder


@pytest.fixture
async def agent() -> AsyncIterator[str]:
    async with run_agent() as url:
        yield url


async def test_a_folder_is_one_run_in_which_every_suite_judges_its_own_cases(
    folder: Path, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Path("report")
    assert not await run_and_show(
        RunOptions(suite=("suites",), agent=agent, store="turns.db", run="monday", report=report)
    )
    shown = capsys.readouterr()
    assert "\nfailed, 1 reason:\n  refunds: tool_trajectory: mean 0.50 is below 0.90\n    partial-refund: " in shown.out
    assert "note: suites/settings.yaml is skipped: it is not a suite" in shown.out
    data = json.loads((report / "report.json").read_text())
    assert data["suite"] == "orders, refunds"
    assert [(part["suite"], part["passed"]) for part in data["suites"]] == [("orders", True), ("refunds", False)]
    assert {item["case_id"]: [result["evaluator"] for result in item["turns"][0]["results"]]
            for item in data["conversations"]} == {
        "status": ["tool_error", "tool_trajectory"], "partial-refund": ["tool_trajectory"]
    }  # fmt: skip
    assert [suite.get("name") for suite in ET.parse(report / "junit.xml").getroot()] == ["orders", "refunds"]
    focus = load_suite(report / "focus/all-failures-2-refunds.yaml")
    assert (focus.name, [case.id for case in focus.cases]) == ("refunds", ["partial-refund"])
    assert focus.gates
    only = EvaluateOptions(suite=("suites/orders.yaml", "suites/refunds.yml"), store="turns.db", case=("status",))
    assert await evaluate_and_show(only)
    assert "1 turn" in capsys.readouterr().out


async def test_evaluate_scores_each_turn_with_the_suite_of_its_case(
    folder: Path, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = "cases: [{id: other, turns: [{user: Hi}]}]"
    Path("all.yaml").write_text(f"suite: all\nevaluators: [tool_error]\ntolerate: [vacuous]\n{cases}\n")
    await run_and_show(RunOptions(suite=("all.yaml", "suites"), agent=agent, store="turns.db", quiet=True))
    assert "\nrun all+orders+refunds-20" in capsys.readouterr().out
    (folder / "refunds.yml").write_text(REFUNDS.replace("0.9", "0.1"))
    assert await evaluate_and_show(EvaluateOptions(suite=("suites",), store="turns.db", output="json"))
    shown = capsys.readouterr()
    data = json.loads(shown.out)
    assert (data["passed"], len(data["conversations"])) == (True, 2)
    assert "not counted, as they belong to no case of the suites: 1 turn" in shown.err


@pytest.mark.parametrize(
    ("copy", "shared"), [(ORDERS.replace("suite: orders", "suite: copy"), "case 'status'"), (ORDERS, "suite 'orders'")]
)
async def test_what_two_suites_share_is_an_error_that_names_both_files(folder: Path, copy: str, shared: str) -> None:
    (folder / "copy.yaml").write_text(copy)
    with pytest.raises(CombinationError, match=f"the {shared} is in suites/copy.yaml and in suites/orders.yaml"):
        await run_and_show(RunOptions(suite=("suites",), agent="http://127.0.0.1:9", store="turns.db"))
    assert CliRunner().invoke(cli, ["validate", "suites"]).exception is not None
