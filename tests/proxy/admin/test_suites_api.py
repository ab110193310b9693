"""A running proxy with a suite: cases, reports and comparisons of runs, and turns that become cases."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from a2a_eval_proxy.features.accept.changes import record_run
from a2a_eval_proxy.privacy.redactor import detector_rule
from a2a_eval_proxy.runs import run_result
from a2a_eval_proxy.runs.compare import compare_runs
from support.proxied import Proxied, proxied
from tool_call_evaluators import parse_suite
from tool_call_evaluators.report import comparison_json
from tool_call_evaluators.suite import load_suite

pytestmark = pytest.mark.asyncio(loop_scope="module")

RUNS = """
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
    (folder / "suite.yaml").write_text(RUNS)
    async with proxied(folder, suite=str(folder / "suite.yaml")) as running:
        for run in ("nightly", OLD):
            await running.talks("Hello", context=run, a2a_eval_run=run)
            await running.talks("Yes", context=run, a2a_eval_run=run)
        await running.talks("unheard of", context="elsewhere")
        await running.flushed()
        yield running


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


async def test_two_runs_compared(it: Proxied) -> None:
    text = comparison_json(await compare_runs(it.proxy.control.settings.store, OLD, "nightly"))
    assert await it.get(f"/api/runs/{quote(OLD, safe='')}/compare/nightly") == json.loads(text)


async def test_the_report_of_a_run(it: Proxied) -> None:
    response = await it.admin.get(f"/api/runs/{quote(OLD, safe='')}/report")
    assert response.text.startswith("<!doctype html>")
    assert "re: Yes" in response.text
    assert response.headers["content-disposition"] == (
        "attachment; filename=\"report.html\"; filename*=UTF-8''report-feature%2Fx%20report.html"
    )
    policy = response.headers["content-security-policy"]
    assert ("sandbox allow-scripts;" in policy, "allow-same-origin" in policy) == (True, False)
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
        assert (response.status_code, response.json()["error"][:7]) == (404, "no run "), path


async def test_long_runs_are_for_the_command_line(it: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_result, "MAX_TURNS", 1)
    monkeypatch.setattr("a2a_eval_proxy.features.compare.stored.MAX_TURNS", 1)
    for path, command in (("report", "evaluate --report"), (f"compare/{quote(OLD, safe='')}", "compare RUN_A RUN_B")):
        response = await it.admin.get(f"/api/runs/nightly/{path}")
        assert (response.status_code, command in response.json()["error"]) == (422, True)


async def test_the_suite_judges_its_own_runs(it: Proxied) -> None:
    """A run without a turn of its cases, and before this process, is no failure of the suite."""
    await it.talks("x", context="foreign", a2a_eval_run="foreign")
    await it.flushed()
    assert (await it.get("/api/runs/nightly"))["verdict"]["tolerated_count"] == 1
    assert (await it.get("/api/runs/foreign"))["verdict"] is None


# ── several suites ──────────────────────────────────────────────────────────────────────────────────────────

ORDERS = """\
suite: orders
evaluators: [{contains: {search_text: no-answer-has-this}}]
gates: {contains: 0}
cases: [{id: talk, turns: [{user: Hello}]}]
"""
REFUNDS = """\
suite: refunds
evaluators: [{contains: {search_text: nor-this, id: asks}}]
gates: {asks: 0.9}
cases: [{id: refund, turns: [{user: Good day}]}]
"""


async def test_each_case_is_scored_and_judged_by_its_own_suite(tmp_path: Path) -> None:
    folder = tmp_path / "suites"
    folder.mkdir()
    (folder / "orders.yaml").write_text(ORDERS)
    (folder / "refunds.yaml").write_text(REFUNDS)
    async with proxied(tmp_path, suite=str(folder)) as it:
        for text in ("Hello", "Good day", "unheard of"):
            await it.talks(text, context=text)
        await it.flushed()
        results = {turn["case_id"]: [one["evaluator"] for one in turn["evaluations"]] for turn in await it.turns()}
        assert results == {"talk": ["contains"], "refund": ["asks"], None: []}
        run = await it.get("/api/runs/nightly")
        assert run["verdict"]["passed"] is False
        assert [reason["message"] for reason in run["verdict"]["reasons"]] == ["refunds: asks: mean 0.00 is below 0.90"]
        assert "below 0.90" in (await it.admin.get("/api/runs/nightly/report")).text
        (turn,) = [turn for turn in await it.turns() if turn["case_id"] is None]
        refused = await it.admin.post("/api/suite/cases", json={"turn_id": turn["turn_id"]})
        assert (refused.status_code, "is a folder" in refused.text) == (409, True)
        assert "Append to" not in (await it.admin.get(f"/turns/{turn['turn_id']}/case")).text


# ── cases of turns ──────────────────────────────────────────────────────────────────────────────────────────

SUITE = """\
suite: orders  # ours
evaluators:
  - tool_trajectory: {mode: in_order}
  - tool_trajectory: {scope: conversation, id: whole}
cases:
  # the only one
  - id: refund
    turns:
      - user: Pay it back
        expect: {tool_calls: [{name: refund}]}
    expect: {tool_calls: [{name: refund}]}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    folder = tmp_path_factory.mktemp("store")
    (folder / "suite.yaml").write_text(SUITE)
    async with proxied(folder, suite=str(folder / "suite.yaml")) as running:
        yield running


async def a_turn(proxy: Proxied, text: str, **options: Any) -> str:
    """The id of the turn in which the user said that; the agent calls `search`."""
    await proxy.talks(text, context=f"c of {text}", **options)
    await proxy.flushed()
    turns = [turn for turn in await proxy.proxy.turns() if turn["user_text"] == text]
    turn_id: str = turns[-1]["turn_id"]
    return turn_id


async def test_the_case_of_a_turn_is_the_one_that_record_writes(tmp_path: Path) -> None:
    async with proxied(tmp_path) as proxy:
        turn_id = await a_turn(proxy, "Where is my order?")
        response = await proxy.admin.get(f"/api/turns/{turn_id}/case")
        assert (response.status_code, response.headers["content-type"]) == (200, "application/yaml")
        recorded = await record_run(proxy.proxy.control.settings.store, None)
        assert response.text in recorded.text
        assert parse_suite("suite: a\ncases:\n" + response.text).cases[0].id == "where-is-my-order"
        nowhere = await proxy.admin.post("/api/suite/cases", json={"turn_id": turn_id})
        assert (nowhere.status_code, nowhere.json()["error"]) == (409, "suite: no suite file was given (--suite)")


async def test_a_case_is_appended_and_in_force_at_once(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "Where is ORD-1?")
    response = await proxy.admin.post("/api/suite/cases", json={"turn_id": turn_id})
    path = Path(proxy.proxy.control.settings.suite or "")
    assert (response.status_code, response.json()) == (201, {"case_id": "where-is-ord-1", "file": str(path)})
    assert path.read_text().startswith(SUITE)
    assert [case.id for case in load_suite(path).cases] == ["refund", "where-is-ord-1"]
    again = await a_turn(proxy, "Where is ORD-1?")
    turn = await proxy.get(f"/api/turns/{again}")
    assert (turn["case_id"], [result["status"] for result in turn["evaluations"]]) == ("where-is-ord-1", ["passed"])
    text = (await proxy.admin.get(f"/api/turns/{again}/case")).text
    assert text.count("user: Where is ORD-1?") == 2, "with the turn before it"
    numbered = await proxy.admin.post("/api/suite/cases", json={"turn_id": again})
    assert numbered.json()["case_id"] == "where-is-ord-1-2"
    named = await proxy.admin.post("/api/suite/cases", json={"turn_id": again, "case_id": " refund "})
    assert (named.status_code, named.json()["error"]) == (409, "case_id: the case 'refund' exists; choose another id")


async def test_a_case_with_the_messages_of_another_one_is_not_appended(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "Twice, please")
    await proxy.admin.post("/api/suite/cases", json={"turn_id": turn_id})
    path = Path(proxy.proxy.control.settings.suite or "")
    before = path.read_text()
    for data in ({"turn_id": turn_id}, {"turn_id": turn_id, "case_id": "another"}):
        refused = await proxy.admin.post("/api/suite/cases", json=data)
        said = "the case 'twice-please' has the same user messages; " in refused.json()["error"]
        assert (refused.status_code, said) == (409, True)
    assert path.read_text() == before
    page = (await proxy.admin.get(f"/turns/{turn_id}/case")).text
    assert ("twice-please" in page, "Append to" in page) == (True, False)


async def test_a_turn_is_bound_to_a_case_and_scored_again(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "please refund me", metadata={"a2a-eval-proxy/case": "no-such-case"})
    before = await proxy.get(f"/api/turns/{turn_id}")
    assert {result["status"] for result in before["evaluations"]} == {"skipped"}
    response = await proxy.admin.post(f"/api/turns/{turn_id}/case", json={"case_id": "refund"})
    assert (response.status_code, response.json()) == (202, {"case_id": "refund"})
    await proxy.flushed()
    after = await proxy.get(f"/api/turns/{turn_id}")
    assert after["case_id"] == "refund"
    assert {result["status"] for result in after["evaluations"]} == {"failed"}
    kept = [name for name in before if name not in ("case_id", "evaluations", "status")]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert turn_id in [turn["turn_id"] for turn in (await proxy.get("/api/turns", case="refund"))["items"]]
    conversation = await proxy.get("/api/conversations/c of please refund me")
    assert {(one["case_id"], one["status"]) for one in conversation["evaluations"]} == {("refund", "failed")}


async def test_what_cannot_be_done_is_refused(proxy: Proxied) -> None:
    turn_id = await a_turn(proxy, "hello")
    failed = await a_turn(proxy, "this fails", state="FAILED")
    for path, body, status, message in (
        (f"/api/turns/{turn_id}/case", {"case_id": "absent"}, 404, "no case 'absent'; GET /api/cases lists them"),
        (f"/api/turns/{turn_id}/case", {}, 400, "case_id: required"),
        ("/api/turns/absent/case", {"case_id": "refund"}, 404, "no turn 'absent'"),
        ("/api/suite/cases", {"turn_id": "absent"}, 404, "no turn 'absent'"),
        ("/api/suite/cases", {"turn_id": 7}, 400, "turn_id: expected a valid string, got 7"),
        ("/api/suite/cases", {"turn_id": failed}, 409, "no case is made of failed conversations"),
    ):
        response = await proxy.admin.post(path, json=body)
        assert (response.status_code, message in response.json()["error"]) == (status, True), response.text


async def test_redacted_turns_are_bound_to_redacted_expectations(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(
        "suite: a\nevaluators: [tool_call_args]\ncases:\n  - id: mail\n    turns:\n      - user: x\n"
        "        expect: {tool_calls: [{name: search, arguments: {q: to ann@example.com}}]}\n"
    )
    async with proxied(tmp_path, suite=str(tmp_path / "suite.yaml"), redact=(detector_rule("email"),)) as proxy:
        await proxy.talks("to ann@example.com")
        await proxy.flushed()
        (turn,) = await proxy.turns()
        await proxy.admin.post(f"/api/turns/{turn['turn_id']}/case", json={"case_id": "mail"})
        await proxy.flushed()
        (bound,) = await proxy.turns()
        assert [(one["evaluator"], one["status"]) for one in bound["evaluations"]] == [("tool_call_args", "passed")]
        assert (bound["user_text"], bound["case_id"]) == ("to [email]", "mail")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"evaluate": False}, "does not score turns"), ({"no_content": True}, "stored without its content")],
    ids=["no-evaluate", "no-content"],
)
async def test_turns_that_cannot_be_scored_are_not_bound(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    async with proxied(tmp_path, **settings) as proxy:
        await proxy.talks()
        await proxy.flushed()
        (turn,) = await proxy.turns()
        await proxy.admin.put("/api/cases/x", json={"turns": [{"user": "hi"}]})
        response = await proxy.admin.post(f"/api/turns/{turn['turn_id']}/case", json={"case_id": "x"})
        assert (response.status_code, message in response.json()["error"]) == (409, True), response.text
