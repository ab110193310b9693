"""Cases, reports and comparisons of runs over the admin API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
import pytest_asyncio
from a2a_eval_proxy.runs import run_result
from a2a_eval_proxy.runs.compare import compare_runs
from support.proxied import Proxied, proxied
from tool_call_evaluators.report import comparison_json

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUITE = """
suite: orders
evaluators:
  - tool_error
  - {tool_trajectory: {mode: in_order}}
gates: {tool_trajectory: {mean: 0.5}, pass_rate: 0.9}
tolerate: [missing_turn]
judge: {model: some-model, base_url: "https://judge.example/v1"}
cases:
  - id: talk
    tags: [smoke, slow]
    turns:
      - {user: Hello, expect: {tool_calls: [{name: search, arguments: {q: Hello}}]}}
      - {user: "Yes", expect: {tool_calls: [{name: lookup}, {name: search, arguments: {q: 'No'}}]}}
  - id: other
    turns: [{user: Good day}]
"""
OLD = "feature/x report"
"""A run whose name must be quoted in a path."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    """A conversation of the case `talk` in two runs, and a turn without a case."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "suite.yaml").write_text(SUITE)
    async with proxied(folder, suite=str(folder / "suite.yaml")) as running:
        for run in ("nightly", OLD):
            await running.talks("Hello", context=run, a2a_eval_run=run)
            await running.talks("Yes", context=run, a2a_eval_run=run)
        await running.talks("unheard of", context="elsewhere")
        await running.flushed()
        yield running


# ── the suite and its cases ─────────────────────────────────────────────────────────────────────────────────


async def test_cases_of_the_suite_and_registered_ones(it: Proxied) -> None:
    mine = {"tags": ["mine"], "turns": [{"user": "Hi", "expect": {"tool_calls": [{"name": "search"}]}}]}
    for case_id in ("mine", "other"):
        await it.admin.put(f"/api/cases/{case_id}", json=mine)
    items = (await it.get("/api/cases"))["items"]
    for case_id in ("mine", "other"):
        await it.admin.delete(f"/api/cases/{case_id}")
    assert [(item["case_id"], item["origin"], item["tags"]) for item in items] == [
        ("talk", "suite", ["smoke", "slow"]),
        ("mine", "registered", ["mine"]),
        ("other", "registered", ["mine"]),
    ]
    assert items[1]["case"] == {"id": "mine", **mine}
    assert items[0]["case"]["turns"][1]["expect"]["tool_calls"][1] == {"name": "search", "arguments": {"q": "No"}}


# ── runs ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_runs_compared(it: Proxied) -> None:
    text = comparison_json(await compare_runs(it.proxy.control.settings.store, OLD, "nightly"))
    assert await it.get(f"/api/runs/{quote(OLD, safe='')}/compare/nightly") == json.loads(text)


async def test_the_report_of_a_run(it: Proxied) -> None:
    response = await it.admin.get(f"/api/runs/{quote(OLD, safe='')}/report")
    assert response.status_code == 200
    assert response.text.startswith("<!doctype html>")
    assert "re: Yes" in response.text
    assert response.headers["content-disposition"] == (
        "attachment; filename=\"report.html\"; filename*=UTF-8''report-feature%2Fx%20report.html"
    )
    policy = response.headers["content-security-policy"]
    assert "sandbox allow-scripts;" in policy
    assert "allow-same-origin" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_names_of_runs_are_not_mistaken_for_paths(it: Proxied) -> None:
    for name in ("a/report", "a", "a/compare/b", "b"):
        await it.talks("x", context=f"run {name}", a2a_eval_run=name)
    await it.flushed()
    for name in ("a%2Freport", "a%2Fcompare%2Fb", "a"):
        assert (await it.get(f"/api/runs/{name}"))["turns"] == 1
    assert (await it.admin.get("/api/runs/a/report")).headers["content-type"].startswith("text/html")
    assert (await it.get("/api/runs/a/compare/b"))["after"] == "b"
    assert (await it.get("/api/runs/a%2Freport/compare/a%2Fcompare%2Fb"))["before"] == "a/report"


async def test_runs_that_are_not_there(it: Proxied) -> None:
    for path in ("nobody/report", "nightly/compare/nobody", "nobody/compare/nightly", "a/b/c/report"):
        response = await it.admin.get(f"/api/runs/{path}")
        assert response.status_code == 404, path
        assert response.json()["error"].startswith("no run ")


async def test_long_runs_are_for_the_command_line(it: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_result, "MAX_TURNS", 1)
    monkeypatch.setattr("a2a_eval_proxy.features.compare.stored.MAX_TURNS", 1)
    for path, command in (("report", "evaluate --report"), (f"compare/{quote(OLD, safe='')}", "compare RUN_A RUN_B")):
        response = await it.admin.get(f"/api/runs/nightly/{path}")
        assert response.status_code == 422
        assert command in response.json()["error"]


async def test_the_suite_judges_its_own_runs(it: Proxied) -> None:
    """A run without a turn of its cases, and before this process, is no failure of the suite."""
    await it.talks("x", context="foreign", a2a_eval_run="foreign")
    await it.flushed()
    assert (await it.get("/api/runs/nightly"))["verdict"]["tolerated_count"] == 1
    assert (await it.get("/api/runs/foreign"))["verdict"] is None
