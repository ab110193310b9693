"""The screens of runs and cases over HTTP, from a real proxy with its store, and what they show of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from a2a_eval_proxy.features.pages import run_pages, screen
from a2a_eval_proxy.features.pages.run_pages import MAX_CASES, run_values
from support.turn_samples import call, result, turn
from tool_call_evaluators import parse_suite
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.suite import Suite

from .conftest import Shown, shown_proxy

MARKUP = "a/b <script>alert(1)</script>"
BREAKING_OUT = "</td><script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(shown):
    """Two runs of the same cases, one with a hostile name."""
    for number, (name, score) in enumerate((("shop-1", 1.0), ("shop-2", 0.0), (MARKUP, 1.0), ("..", 1.0))):
        shown.store(
            *(
                turn(
                    f"{name}-{case}", "x", [call("pay")], [result("tool_error", score if case == "r1" else 1.0)],
                    case=case if name.startswith("shop") else None, run=name, start=100 * number,
                )
                for case in ("r1", "r2")
            )
        )  # fmt: skip
    return shown.admin


def test_the_table_has_verdicts_and_links(runs):
    text = runs.get("/runs").text
    order = [text.index(f'<a href="runs/{name}">') for name in ("shop-2", "shop-1")]
    assert order == sorted(order)
    assert "No suite" in text
    assert "<script>alert" not in text
    assert 'href="runs/?name=.."' in text


def test_the_table_has_pages(runs, monkeypatch):
    monkeypatch.setattr(run_pages, "PAGE", 1)
    first = runs.get("/runs").text
    assert first.count('<a href="runs/') == 1
    assert 'href="runs?page=2"' in first
    assert 'href="runs?page=1"' in runs.get("/runs?page=2").text
    assert "no more runs" in runs.get("/runs?page=999").text
    for bad in ("0", "x", "1" * 20):
        response = runs.get(f"/runs?page={bad}")
        assert (response.status_code, "page: expected " in response.text) == (400, True)


def test_names_of_runs_never_become_markup_or_another_path(runs):
    for path in (f"/runs/{MARKUP.replace('/', '%2F').replace('<', '%3C')}", "/runs/?name=.."):
        response = runs.get(path)
        assert (response.status_code, "<script>alert" in response.text) == (200, False)
    missing = runs.get("/runs/no such run")
    assert (missing.status_code, "no run &#39;no such run&#39;" in missing.text) == (404, True)


def test_a_page_shows_the_counts_at_once_and_the_rest_when_it_is_judged(runs, monkeypatch):
    monkeypatch.setattr(screen, "FIRST_PAINT_S", 0.0)
    page, fragment = runs.get("/runs/shop-1").text, runs.get("/runs/shop-1?fragment=run").text
    assert ("Reading 2 turns" in page, "data-again" in page) == (True, True)
    assert fragment.lstrip().startswith("<div")
    for text in (fragment, runs.get("/runs/shop-1?wait=1").text):
        assert 'class="verdict unjudged"' in text


def test_a_run_is_read_again_when_it_has_changed(shown):
    for name in ("growing-1", "growing-2"):
        shown.store(turn(name, run="growing"))
        assert f"conversation-{name}" in shown.admin.get("/runs/growing").text


def test_a_run_that_is_too_long_shows_its_counts(runs, monkeypatch):
    monkeypatch.setattr(run_pages, "MAX_TURNS", 1)
    assert "has more than 1 turns" in runs.get("/runs/shop-1").text
    assert "data-again" not in runs.get("/runs").text


def test_two_runs_are_compared_with_the_differences_of_their_report(runs):
    text = runs.get("/compare?a=shop-1&b=shop-2&wait=1").text
    chosen = '<option value="shop-1" selected>shop-1</option>'
    for part in ("<h1>shop-1 → shop-2</h1>", "newly failing: ", chosen, 'href="compare?a=shop-2&amp;b=shop-1"'):
        assert part in text


def test_what_cannot_be_compared_is_explained(runs, monkeypatch):
    assert "Choose two different runs." in runs.get("/compare?a=shop-1&b=shop-1").text
    unknown = runs.get("/compare?a=shop-1&b=<script>")
    assert unknown.status_code == 404
    assert "<script>" not in unknown.text.replace('<script type="module"', "")
    monkeypatch.setattr("a2a_eval_proxy.features.compare.stored.MAX_TURNS", 1)
    assert "a2a-eval-proxy compare" in runs.get("/compare?a=shop-1&b=shop-2&wait=1").text


# ── what a page shows of a run ──────────────────────────────────────────────────────────────────────────────

GATED = parse_suite(
    "suite: orders\nevaluators: [tool_error]\ngates: {pass_rate: 0.5}\n"
    "cases: [{id: a, turns: [{user: x}]}, {id: b, turns: [{user: y}]}, {id: c, turns: [{user: z}]}]"
)


def link(*segments: str, **query: str | None) -> str:
    given = urlencode({name: value for name, value in query.items() if value is not None})
    return "/" + "/".join(quote(segment, safe="") for segment in segments) + (f"?{given}" if given else "")


def scored(name: str, score: float, case: str | None = None, **more: Any) -> dict[str, Any]:
    return turn(name, "x", [call("pay")], [result("tool_error", score)], case=case or name, **more)


def view(*turns: dict[str, Any], suite: Suite | None = GATED, more: bool = False) -> Any:
    conversations = follow(turns, suite)
    verdict = run_verdict(suite or parse_suite("suite: none"), conversations).to_dict()
    incomplete = {"incomplete": True} if more else {}
    found = run_values(build_report("nightly", turns, verdict | incomplete, suite=suite), link)
    cases = [SimpleNamespace(**row) for row in found["cases"]]
    return SimpleNamespace(**{**found, "cases": cases})


UNGATED = parse_suite("suite: s\nevaluators: [tool_error]")


def test_a_run_counts_cases_gates_and_what_has_not_come_yet():
    found = view(scored("a", 1.0), scored("b", 0.0, start=2))
    assert [row.attempts[0][0] for row in found.cases] == ["noted", "passed"]
    assert (found.planned, found.missing, found.missing_labels) == (3, 1, ["c"])
    assert "below threshold, and the gate is not met" in found.why


def test_a_run_that_only_lacks_cases_has_not_failed_yet():
    found = view(scored("a", 1.0), more=True)
    assert (found.status, found.passed) == ("incomplete", "1 of 1 (100%); 1 of 3 planned ones seen")
    assert "Why it does not pass yet" in found.why
    assert '<a href="#missing">b</a>' in found.why
    assert view(scored("a", 0.0), scored("b", 0.0)).status == "failed"
    assert view(scored("a", 1.0), scored("b", 1.0), scored("c", 1.0)).status == "passed"


def test_a_case_is_a_row_with_its_attempts_and_those_that_failed_come_first():
    found = view(scored("a", 1.0), scored("b", 1.0, start=2, seconds=3), scored("c", 0.0, "b", start=9), suite=UNGATED)
    first, second = found.cases
    assert [first.name, first.passed, first.turns, first.calls, first.took] == ["b", 1, 2, 2, "4.0 s"]
    assert first.attempts == [
        ("passed", "b #1", "/conversations/conversation-b?run=nightly"),
        ("failed", "b #2", "/conversations/conversation-c?run=nightly"),
    ]
    assert [second.name, second.attempts[0][0]] == ["a", "passed"]
    assert '<a href="/turns/c">b #2</a>' in found.why


def test_the_table_is_bounded_and_no_text_of_a_run_becomes_markup():
    many = (scored(f"{n}", 1.0, case=f"c{n}", start=n) for n in range(MAX_CASES + 2))
    found = view(scored(BREAKING_OUT, 0.0, case=BREAKING_OUT, conversation=BREAKING_OUT), *many, suite=None)
    assert (len(found.cases), found.more_cases) == (MAX_CASES, 3)
    assert "<script" not in found.why + found.figures


# ── the screen of cases ─────────────────────────────────────────────────────────────────────────────────────

SUITE = """
suite: orders
evaluators: [tool_error, {tool_trajectory: {scope: conversation}}]
cases:
  - id: status
    tags: [smoke]
    turns:
      - user: Where is <b>my</b> order?
        expect: {tool_calls: [{name: lookup_order, arguments: {id: {$regex: 'O-[0-9]+'}}}]}
  - id: never
    user_goal: Get it back.
    repeat: 3
    turns: [{user: Never sent.}]
    expect: {tool_calls_order: [f]}
  - {id: replaced, turns: [{user: Of the suite.}]}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("cases")
    (folder / "suite.yaml").write_text(SUITE)
    with shown_proxy(folder, suite=str(folder / "suite.yaml")) as proxy:
        case = {"turns": [{"user": "Registered.", "expect": {"tool_calls": []}}]}
        assert proxy.admin.put("/api/cases/replaced", json=case).status_code == 200
        yield proxy


def test_cases_are_as_in_a_suite_file_with_a_link_to_their_turns(shop):
    text = shop.admin.get("/cases").text
    status, never, replaced = text.split("<section")[1:]
    for section, parts in (
        (status, ["Where is &lt;b&gt;my&lt;/b&gt; order?", "lookup_order", "$regex", 'href="./?case=status"', "smoke"]),
        (never, ["user_goal: Get it back.", "3 conversations"]),
        (replaced, ["registered", "tool_calls: []"]),
    ):
        assert [part for part in parts if part not in section] == []
    assert ("3 cases" in text, "Of the suite." in text) == (True, False)


def test_a_proxy_without_cases_says_where_they_come_from(shown):
    shown.admin.delete("/api/cases/x")  # of another test
    assert "--suite suite.yaml" in shown.admin.get("/cases").text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["status", "never", "replaced"]),
        ("q=SMOKE", ["status"]),
        ("q=lookup_order+order", ["status"]),
        ("q=get+it+back", ["never"]),
        ("q=nothing+like+it", []),
        ("page=2", []),
    ],
)
def test_cases_are_searched(shop, query, found):
    text = shop.admin.get(f"/cases?{query}").text
    assert re.findall(r'<h2 id="case-\d+">(\w+)</h2>', text) == found
    assert ("No case matches" in text) is (not found)


def test_cases_come_in_pages_that_keep_the_search(shop, monkeypatch):
    monkeypatch.setattr(run_pages, "CASES_PAGE", 1)
    text = shop.admin.get("/cases?q=e&page=2").text
    assert re.findall(r'<h2 id="case-\d+">(\w+)</h2>', text) == ["never"]
    assert re.findall(r'href="cases(\?q[^"]+)" rel="(\w+)"', text) == [
        ("?q=e&amp;page=1", "prev"),
        ("?q=e&amp;page=3", "next"),
    ]
    assert shop.admin.get("/cases?q=" + "x" * 201).status_code == 400
