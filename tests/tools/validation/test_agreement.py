"""The evaluators agree with public verdicts, as the page says."""

from __future__ import annotations

import pytest
from tools.validation.__main__ import PAGE, page
from tools.validation.agreement import BFCL, TAU, agreement
from tools.validation.sources import Judged, bfcl, tau


@pytest.fixture(scope="module")
def leaderboard() -> list[Judged]:
    return list(bfcl())


def test_the_leaderboard(leaderboard: list[Judged]) -> None:
    found = agreement(leaderboard, BFCL)
    assert found[""].share >= 0.975
    assert min(counts.share for counts in found.values()) >= 0.94


def test_tau_bench() -> None:
    counts = agreement(tau(), TAU)[""]
    assert counts.share >= 0.9
    assert counts.precision >= 0.95


def test_the_page_is_written_from_the_rows(leaderboard: list[Judged]) -> None:
    assert page(leaderboard, list(tau())) == PAGE.read_text("utf-8"), "run `make validate`"
