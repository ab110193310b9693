"""The screen of cases, of a proxy with a suite and registered cases."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from a2a_eval_proxy.features.pages import run_pages

from ..conftest import Shown, shown_proxy

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
    assert "Where is &lt;b&gt;my&lt;/b&gt; order?" in status
    assert "name: lookup_order" in status
    assert "$regex" in status
    assert 'href="./?case=status"' in status
    assert "smoke" in status
    assert "3 cases" in text
    assert "user_goal: Get it back." in never
    assert "3 conversations" in never
    assert "registered" in replaced
    assert "tool_calls: []" in replaced
    assert "Of the suite." not in text


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
    for wrong in ("page=0", "q=" + "x" * 201):
        assert shop.admin.get(f"/cases?{wrong}").status_code == 400
