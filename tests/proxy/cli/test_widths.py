"""Tables on terminals of several widths and encodings: they fit, and what people copy from them is whole."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.ids import new_run_name
from rich.cells import cell_len
from support.stored_runs import store_turns
from support.turn_samples import call, finding, result, turn

CASES = ("refund-of-a-broken-mug", "parcel-that-was-never-delivered", "status")
HOSTILE = "\x1b[2J\x1b]0;owned\x07::error::owned \u202egnp.exe"
EXPECTED = "{name: issue_refund_of_an_order, arguments: {order_id: ORD-1002, amount: 14.5}}"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """A store with two runs of a suite, the suite, and the names of the runs."""
    folder = tmp_path_factory.mktemp("widths")
    suite, store = folder / "suite.yaml", folder / "turns.db"
    turns = "".join(
        f"  - {{id: {case}, turns: [{{user: Do {case}., expect: {{tool_calls: [{EXPECTED}]}}}}]}}\n" for case in CASES
    )
    head = "suite: shop\nevaluators: [tool_trajectory, tool_error]\ngates: {tool_error: {mean: 0.5}}\n"
    suite.write_text(f"{head}cases:\n{turns}")
    names = [new_run_name("regression"), new_run_name("after-the-change")]
    reason = "in_order: 0 of 1 expected call matched: call 1 (issue_refund_of_an_order) differs: amount: expected 14.5"
    for run, failing in zip(names, (0, 2), strict=True):
        made = []
        for number, case in enumerate(CASES):
            bad = number < failing
            calls = [call("issue_refund_of_an_order", order_id="ORD-1002", amount=29 if bad else 14.5, result=HOSTILE)]
            scores = [result("tool_trajectory", 0.0 if bad else 1.0, reason=reason), result("tool_error", 1.0)]
            made.append(turn(str(number), f"Do {case}.", calls, scores, case=case, start=number,
                             findings=[finding("id_reused", message=HOSTILE)], response_text=HOSTILE))  # fmt: skip
        store_turns(store, made, run=run)
    return store, suite, names


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_fit_any_terminal(
    shop: tuple[Path, Path, list[str]], width: int, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, suite, (before, after) = shop
    commands = {
        "runs": (["runs"], 0, [before, after]),
        "show": (["show", after], 0, [f"{after}-{number}" for number in range(3)]),
        "turn": (["show", f"{after}-0"], 0, []),
        "compare": (["compare", before, after], 0, [before, after]),
        "evaluate": (["evaluate", "--run", after, "--suite", str(suite)], 1, list(CASES)),
        "accept": (["accept", str(suite), "--run", after, "--dry-run"], 0, list(CASES[:2])),
        "validate": (["validate", str(suite)], 0, []),
        "evaluators": (["evaluators"], 0, ["tool_trajectory"]),
    }
    monkeypatch.setenv("COLUMNS", str(width))
    for name, (command, code, copied) in commands.items():
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr("sys.stdout", out)
        own = [] if name in ("validate", "evaluators") else ["--store", str(store)]
        monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *command, *own])
        with pytest.raises(SystemExit) as ended:
            main()
        out.flush()
        text = out.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
        assert (name, ended.value.code or 0) == (name, code)
        rows = [line for line in text.splitlines() if "  " in line.strip()]
        # lines of a file and of a turn are no tables; names of runs stay whole
        if name not in ("accept", "turn", "runs" if width < 80 else ""):
            assert [line for line in rows if cell_len(line) > width] == [], name
        assert [word for word in copied if word not in text] == [], name
        for control in ("\x1b", "\x07", "\u202e"):
            assert control not in text, name
        assert not any(line.lstrip().startswith("::error") for line in text.splitlines()), name
