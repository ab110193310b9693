"""The evaluators agree with public verdicts, as the page says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from validation.__main__ import PAGE, page
from validation.agreement import BFCL, TAU, agreement, mean_pass_hat, wilson
from validation.sources import Judged, accepted, bfcl, tau


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


def test_accepted_values_become_placeholders() -> None:
    assert accepted(["EUR", "USD", ""]) == {"$optional": {"$one_of": ["EUR", "USD", ""]}}
    assert accepted([{"unit": ["kg", ""]}]) == {"unit": {"$optional": {"$one_of": ["kg", ""]}}}
    assert accepted([""]) == {"$optional": ""}
    assert accepted([[1, 2]]) == [1, 2]


def test_files_of_the_leaderboard_are_read(tmp_path: Path) -> None:
    def write(file: str, *rows: object) -> None:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    names = {
        "parallel_function": "player.play",
        "simple": "sum",
        "multiple_function": "",
        "parallel_multiple_function": "",
    }
    for category, function in names.items():
        name = f"gorilla_openfunctions_v1_test_{category}.json"
        ids = [f"{category}_{number}" for number in range(3)] if function else []
        write(f"data/{name}", *({"id": one, "function": {"name": function}} for one in ids))
        gold = (
            {"sum": {"a": [1]}} if category == "simple" else {"player.play_1": {"a": [1]}, "player.play 2": {"a": [2]}}
        )
        write(f"data/possible_answer/{name}", *({"id": one, "ground_truth": gold} for one in ids))
    play = "[player.play(a=1), player.play(a=2)]"
    answers = [play, [{"player_play": '{"a": 2}'}, {"player_play": {"a": 1}}], "I cannot do that."]
    ids = [f"parallel_function_{number}" for number in range(3)]
    rows = [{"id": one, "result": answer} for one, answer in zip(ids, answers, strict=True)]
    write("results/result/m/gorilla_openfunctions_v1_test_parallel_function_result.json", *rows)
    wrong = {"id": 3, "prompt": {"id": ids[2]}, "error_type": "ast_decoder:decoder_failed"}
    write("results/score/m/parallel_function_score.json", {"accuracy": 0.6}, wrong)
    answers = ["sum(a=1)", "sum(a=3)", [{"": {}}]]
    rows = [{"id": f"simple_{number}", "result": answer} for number, answer in enumerate(answers)]
    write("results/result/m/gorilla_openfunctions_v1_test_simple_result.json", *rows)
    wrong = {"id": 2, "prompt": {"id": "simple_1"}, "error_type": "value_error:others"}
    write("results/score/m/simple_score.json", {"accuracy": 0.6}, wrong)

    judged = list(bfcl(tmp_path / "results", tmp_path / "data"))

    assert [(item.name, item.category, item.right, item.problem) for item in judged] == [
        ("simple_0 m", "simple", True, ""),
        ("simple_1 m", "simple", False, "value_error:others"),
        ("parallel_function_0 m", "parallel", True, ""),
        ("parallel_function_1 m", "parallel", True, ""),
    ]
    assert agreement(judged, BFCL)[""].share == 1.0
    with pytest.raises(ValueError, match="bfcl-gold"):
        list(bfcl(tmp_path / "results"))


def test_a_file_of_tau_bench_is_read(tmp_path: Path) -> None:
    def made(name: str, arguments: str) -> dict[str, object]:
        call = {"id": name, "type": "function", "function": {"name": name, "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}

    trial = {
        "task_id": 3,
        "reward": 1.0,
        "trial": 0,
        "info": {"task": {"actions": [{"name": "book_seat", "kwargs": {"seat": "1A"}}]}},
        "traj": [
            {"role": "user", "content": "Seat 1A, please"},
            made("get_seats", "{}"),
            {"role": "tool", "tool_call_id": "get_seats", "name": "get_seats", "content": "[]"},
            made("book_seat", '{"seat": "1A"}'),
            {"role": "tool", "tool_call_id": "book_seat", "name": "book_seat", "content": "Error: taken"},
        ],
    }
    path = tmp_path / "trials.json"
    path.write_text(json.dumps([trial]))
    (judged,) = tau(path)
    assert [(call.name, call.error) for call in judged.case.tool_calls] == [
        ("get_seats", None),
        ("book_seat", "Error: taken"),
    ]
    assert agreement([judged], TAU)[""].failed_alone == [judged]


def test_statistics() -> None:
    assert wilson(45, 50) == pytest.approx((0.78640, 0.95652), abs=1e-5)
    assert mean_pass_hat([[True, True, False, False], [True] * 4], 2) == pytest.approx((1 / 6 + 1) / 2)
