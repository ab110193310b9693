"""The table of runs, and the trend of runs of the same suite."""

from __future__ import annotations

from dataclasses import replace

from a2a_eval_proxy.store import RunSummary
from a2a_eval_proxy.ui.judged_runs import RunView
from a2a_eval_proxy.ui.run_pages import MAX_BARS, RunRow, Trend, run_row, trends
from markupsafe import Markup
from support.turn_samples import at

VIEW = RunView(
    status="passed", title="", passed=3, judged=4, gates_met=0, gates=0, planned=0, missing=0, missing_labels=(),
    cases=(), more_cases=0, case_ids=frozenset({"a"}), agents=(), sections=Markup(), again=None,
)  # fmt: skip


def row(name: str, view: RunView | None = VIEW) -> RunRow:
    return run_row(RunSummary(name, 4, 0, 3, 1, 0, 0, at(0), at(2.5)), view and replace(view, title=view.title or name))


def test_a_row_has_when_the_run_began_and_how_long_it_took():
    found = row("monday")
    assert (found.when, found.took) == ("2026-11-21 09:00:00", "2.5 s")
    assert run_row(RunSummary("empty", 0, 0, 0, 0, 0, 0, None, None), None).when == "–"


def test_a_trend_has_the_runs_that_share_a_case_the_oldest_first():
    other = replace(VIEW, case_ids=frozenset({"b"}))
    rows = [row("d", VIEW), row("c", None), row("alone", other), row("b", replace(VIEW, passed=4)), row("a")]
    (trend,) = trends(rows)
    assert [bar.run for bar in trend.bars] == ["a", "b", "d"]
    assert [bar.height for bar in trend.bars] == [0.75 * Trend.HEIGHT, Trend.HEIGHT, 0.75 * Trend.HEIGHT]
    assert trend.text == "a: 3 of 4 passed; b: 4 of 4 passed; d: 3 of 4 passed"


def test_the_cases_of_a_suite_that_grew_still_belong_together():
    both = replace(VIEW, case_ids=frozenset({"a", "b"}))
    (trend,) = trends([row("c", replace(VIEW, case_ids=frozenset({"b"}))), row("b", both), row("a")])
    assert len(trend.bars) == 3


def test_a_trend_is_named_after_the_suite_or_what_the_names_of_runs_have_in_common():
    names = [f"orders-2026112{n}T090000.000Z" for n in (2, 1)]
    assert trends([row(name) for name in names])[0].name == "orders"
    assert trends([row(name, replace(VIEW, title="Orders")) for name in names])[0].name == "Orders"


def test_runs_without_cases_or_results_have_no_trend_and_a_trend_is_bounded():
    assert trends([row("b", replace(VIEW, case_ids=frozenset())), row("a", replace(VIEW, judged=0))]) == []
    (trend,) = trends([row(f"{n}") for n in range(MAX_BARS + 5)])
    assert len(trend.bars) == MAX_BARS
    assert trend.bars[-1].run == "0"
