"""Medians, differences, ratios and the table, on made-up rounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.__main__ import main
from bench.procfs import Use
from bench.profile import NAMELESS, Cost, Function, profile_of, read_calls, read_stacks, tables
from bench.report import Metric, Round, figures, number, ratio, table, table_by_target
from bench.revision import fingerprint
from bench.scoring import SCORING
from bench.stages import stages
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
    lines = table(found, [RATE, ADDED], ["direct", "nginx", "proxy"], "proxy", ["nginx", "naive"])

    assert lines.splitlines() == [
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

    assert table_by_target(found, metrics, list(COSTS), ["nginx", "floor", "absent"]).splitlines() == [
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


RAW = """\
thread (7): MainThread;run (/lib/asyncio/runners.py:86);Tap.response (/app/relay/tap.py:189) 30
thread (7): MainThread;run (/lib/asyncio/runners.py:86);Tap.response (/app/relay/tap.py:189);loads (<string>:1) 10
thread (7): MainThread;run (/lib/asyncio/runners.py:86) 40
thread (9): store-writer;write (/app/store.py:5);write (/app/store.py:5) 5
thread (11) 5
"""
RESPONSE = Function("/app/relay/tap.py", 189, "Tap.response")


def test_cpu_of_a_thread_is_divided_as_its_samples_are() -> None:
    calls = {("MainThread", RESPONSE): 1.5}

    found = profile_of("an exchange", read_stacks(RAW), calls, {7: 80.0, 9: 20.0})

    assert found.threads == {"MainThread": pytest.approx(80), "store-writer": pytest.approx(20), NAMELESS: 0.0}
    assert found.costs == [
        Cost("MainThread", "run (asyncio/runners.py)", 40.0, 80.0, 0.0),
        Cost("MainThread", "Tap.response (relay/tap.py)", 30.0, 40.0, 1.5),
        Cost("store-writer", "write (app/store.py)", 20.0, 20.0, 0.0),
        Cost("MainThread", "loads (<string>)", 10.0, 10.0, 0.0),
    ]
    assert tables(found).splitlines()[:5] == [
        "**an exchange: 100 µs of CPU**",
        "",
        "| MainThread, 80.0 µs, 1.50 calls | own, µs | with callees, µs | calls |",
        "| --- | ---: | ---: | ---: |",
        "| run (asyncio/runners.py) | 40.0 | 80.0 | 0.00 |",
    ]
    assert "store-writer, 20.0 µs, 0.00 calls" in tables(found)
    assert NAMELESS not in tables(found)


def test_functions_that_only_call_others_all_the_time_are_left_out() -> None:
    raw = "thread (7): MainThread;main (/app/cli.py:1);work (/app/work.py:1) 100\n"

    assert [cost.function for cost in profile_of("", read_stacks(raw), {}, {7: 10.0}).costs] == ["work (app/work.py)"]


def test_another_format_of_samples_is_refused() -> None:
    with pytest.raises(ValueError, match="another format: 'run 3'"):
        read_stacks("run 3")


def test_calls_are_counted_for_each_exchange() -> None:
    counted = '[["MainThread", "/app/relay/tap.py", 189, "Tap.response", 30]]'

    assert read_calls(counted, 20) == {("MainThread", RESPONSE): 1.5}


def test_help_lists_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    listed = capsys.readouterr().out.partition("without --quick:\n")[2].splitlines()
    parts = "traffic stages profile traces evaluators runs workers grpc watching hostile pages"
    assert [line.split()[0] for line in listed] == parts.split()


@pytest.mark.parametrize("arguments", [["speed"], ["stages", "--only", "store,speed"]])
def test_what_is_no_part_or_target_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)

    assert "'speed' is not one of" in capsys.readouterr().err
