"""The screens of runs over HTTP, from a real proxy with its store."""

from __future__ import annotations

import re

import pytest
from a2a_eval_proxy.features.pages import run_pages, screen
from support.turn_samples import call, result, turn

MARKUP = "a/b <script>alert(1)</script>"


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
    failed = [text.partition(f'<a href="runs/{name}">')[2].partition("</tr>")[0] for name in ("shop-2", "shop-1")]
    assert ['bad" data-head="failed">1<' in row for row in failed] == [True, False]
    assert "<script>alert" not in text
    assert 'href="runs/?name=.."' in text


def test_the_table_has_pages(runs, monkeypatch):
    monkeypatch.setattr(run_pages, "PAGE", 1)
    first = runs.get("/runs").text
    assert first.count('name="a"') == 1
    assert 'href="runs?page=2"' in first
    assert 'href="runs?page=1"' in runs.get("/runs?page=2").text
    assert "no more runs" in runs.get("/runs?page=999").text
    for bad in ("0", "-1", "x", "1" * 20):
        response = runs.get(f"/runs?page={bad}")
        assert response.status_code == 400
        assert "page: expected " in response.text


def test_a_run_has_its_verdict_errors_and_conversations(runs):
    text = runs.get("/runs/shop-2").text
    assert 'class="verdict unjudged"' in text
    assert "What failed" in text
    assert '<a href="../conversations/conversation-shop-2-r1?run=shop-2">r1</a>' in text
    assert 'href="../api/runs/shop-2/report"' in text
    assert re.search(r"<h2[^>]*>1 distinct error</h2>", text)


def test_names_of_runs_never_become_markup_or_another_path(runs):
    for path in (f"/runs/{MARKUP.replace('/', '%2F').replace('<', '%3C')}", "/runs/?name=.."):
        response = runs.get(path)
        assert response.status_code == 200
        assert "<script>alert" not in response.text
    missing = runs.get("/runs/no such run")
    assert missing.status_code == 404
    assert "no run &#39;no such run&#39;" in missing.text


def test_a_page_shows_the_counts_at_once_and_the_rest_when_it_is_judged(runs, monkeypatch):
    monkeypatch.setattr(screen, "FIRST_PAINT_S", 0.0)
    page, fragment = runs.get("/runs/shop-1").text, runs.get("/runs/shop-1?fragment=run").text
    assert "Reading 2 turns" in page
    assert "data-again" in page
    assert fragment.lstrip().startswith("<div")
    assert 'class="verdict unjudged"' in fragment
    assert 'class="verdict unjudged"' in runs.get("/runs/shop-1?wait=1").text


def test_a_run_is_read_again_when_it_has_changed(shown):
    shown.store(turn("growing-1", run="growing"))
    assert "conversation-growing-1" in shown.admin.get("/runs/growing").text
    shown.store(turn("growing-2", run="growing"))
    assert "conversation-growing-2" in shown.admin.get("/runs/growing").text


def test_a_run_that_is_too_long_shows_its_counts(runs, monkeypatch):
    monkeypatch.setattr(run_pages, "MAX_TURNS", 1)
    assert "has more than 1 turns" in runs.get("/runs/shop-1").text
    assert "data-again" not in runs.get("/runs").text


def test_two_runs_are_compared_with_the_differences_of_their_report(runs):
    response = runs.get("/compare?a=shop-1&b=shop-2&wait=1")
    assert "<h1>shop-1 → shop-2</h1>" in response.text
    assert "newly failing: " in response.text
    assert '<option value="shop-1" selected>shop-1</option>' in response.text
    assert 'href="compare?a=shop-2&amp;b=shop-1"' in response.text
    assert response.text.count("<style") == 0


def test_what_cannot_be_compared_is_explained(runs, monkeypatch):
    assert "<h1>Compare runs</h1>" in runs.get("/compare").text
    assert "Choose two different runs." in runs.get("/compare?a=shop-1&b=shop-1").text
    unknown = runs.get("/compare?a=shop-1&b=<script>")
    assert unknown.status_code == 404
    assert "<script>" not in unknown.text.replace('<script type="module"', "")
    monkeypatch.setattr("a2a_eval_proxy.features.compare.stored.MAX_TURNS", 1)
    assert "a2a-eval-proxy compare" in runs.get("/compare?a=shop-1&b=shop-2&wait=1").text


def test_a_comparison_that_takes_time_is_fetched_later(runs, monkeypatch):
    monkeypatch.setattr(screen, "FIRST_PAINT_S", 0.0)
    assert 'data-again="0">Comparing' in runs.get("/compare?a=shop-2&b=shop-1").text
    assert "<h1>shop-2 → shop-1</h1>" in runs.get("/compare?a=shop-2&b=shop-1&fragment=comparison").text
    assert "<h1>shop-2 → shop-1</h1>" in runs.get("/compare?a=shop-2&b=shop-1").text
