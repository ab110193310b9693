"""The table of runs."""

from __future__ import annotations

from a2a_eval_proxy.features.pages.run_pages import run_row
from a2a_eval_proxy.store import RunSummary
from support.turn_samples import at


def test_a_row_has_when_the_run_began_and_how_long_it_took():
    found = run_row(RunSummary("monday", 4, 0, 3, 1, 0, 0, at(0), at(2.5)), None)
    assert (found.when, found.took) == ("2026-11-21 09:00:00", "2.5 s")
    assert run_row(RunSummary("empty", 0, 0, 0, 0, 0, 0, None, None), None).when == "–"
