"""Medians, differences, ratios and the table, on made-up rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.procfs import Use
from bench.results import Round, figures, ratio
from bench.revision import fingerprint
from bench.scoring import SCORING
from bench.sections import Metric
from bench.stages import stages
from bench.table import markdown_table, number, transposed_table
from bench.traces import TRACES
from bench.traffic import traffic
from bench.workers import WORKERS

RATE = Metric("rate", "Unary", "requests/s")
ADDED = Metric("p50", "Unary", "added latency, ms", minus_direct=True)
ROUNDS: list[Round] = [
    {"direct": {"rate": 100.0, "p50": 1.0}, "nginx": {"rate": 50.0, "p50": 3.0}, "proxy": {"rate": 20.0, "p50": 5.0}},
    {"direct": {"rate": 100.0, "p50": 4.0}, "nginx": {"rate": 70.0, "p50": 5.0}, "proxy": {"rate": 30.0, "p50": 8.0}},
    {"direct": {"rate": 100.0, "p50": 2.0}, "nginx": {"rate": 60.0, "p50": 4.0}, "proxy": {"rate": 10.0, "p50": None}},
]

COSTS = {"direct": 0.0, "nginx": 10.0, "floor": 20.0, "scoring": 50.0}


def test_figures_are_medians_over_the_rounds() -> None:
    assert figures(ROUNDS, [RATE])["rate"] == {"direct": 100.0, "nginx": 60.0, "proxy": 20.0}


def test_added_latency_is_taken_within_a_round_and_skips_what_was_not_measured() -> None:
    assert figures(ROUNDS, [ADDED])["p50"] == {"nginx": 2.0, "proxy": 4.0}


@pytest.mark.parametrize("figure", [{}, {"a": 1.0}, {"a": 1.0, "b": 0.0}, {"a": -0.1, "b": 2.0}])
def test_ratio_needs_two_positive_figures(figure: dict[str, float]) -> None:
    assert ratio(figure, "a", "b") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0412, "0.04"),
        (9.999, "10.00"),
        (12.34, "12.3"),
        (203.4, "203"),
        (75_412.0, "75,400"),
        (-0.012, "-0.01"),
    ],
)
def test_numbers_keep_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_table_has_a_row_per_metric_and_the_ratios_of_the_proxy() -> None:
    found = figures(ROUNDS, [RATE, ADDED])
    table = markdown_table(found, [RATE, ADDED], ["direct", "nginx", "proxy"], "proxy", ["nginx", "naive"])

    assert table.splitlines() == [
        "|  | direct | nginx | proxy | proxy / nginx |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| **Unary** |  |  |  |  |",
        "| requests/s | 100 | 60.0 | 20.0 | 0.33 |",
        "| added latency, ms | – | 2.00 | 4.00 | 2.00 |",
    ]


def test_table_by_target_compares_each_with_the_baselines() -> None:
    metrics = [Metric("cost", "CPU", "µs"), Metric("rate", "Unary", "requests/s", compared=False)]
    found = figures([{name: {"cost": value, "rate": 100.0} for name, value in COSTS.items()}], metrics)
    del found["cost"]["direct"]

    assert transposed_table(found, metrics, list(COSTS), ["nginx", "floor", "absent"]).splitlines() == [
        "|  | CPU, µs | / nginx | / floor | Unary, requests/s |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| direct | – | – | – | 100 |",
        "| nginx | 10.0 | 1.00 | 0.50 | 100 |",
        "| floor | 20.0 | 2.00 | 1.00 | 100 |",
        "| scoring | 50.0 | 5.00 | 2.50 | 100 |",
    ]


def test_shares_of_cpu_time_leave_out_what_this_program_used() -> None:
    before, after = Use(total=100, idle=50, ours=10), Use(total=110, idle=54, ours=13)

    assert after.shares_since(before) == {"idle": 0.4, "others": pytest.approx(0.3)}
    assert before.shares_since(before) == {"idle": 0.0, "others": 0.0}


def test_metric_keys_are_unique_across_parts() -> None:
    keys = [metric.key for part in (traffic([]), stages([]), TRACES, SCORING, WORKERS) for metric in part.metrics]

    assert len(keys) == len(set(keys))


def test_fingerprint_notices_an_edit_and_nothing_else(tmp_path: Path) -> None:
    module = tmp_path / "proxy" / "module.py"
    module.parent.mkdir()
    module.write_text("one = 1\n")
    before = fingerprint(tmp_path)

    (module.parent / "module.pyc").write_bytes(b"compiled")
    assert fingerprint(tmp_path) == before
    module.write_text("one = 2\n")
    assert fingerprint(tmp_path) != before
