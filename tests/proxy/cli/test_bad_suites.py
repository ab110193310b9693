"""What is wrong with a suite is one sentence with its place, whichever command is given it."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main

NOBODY = "http://127.0.0.1:1"
COMMANDS = {
    "run": ["run", "suite.yaml", "--agent", NOBODY, "--store", "turns.db"],
    "evaluate": ["evaluate", "--store", "turns.db", "--suite", "suite.yaml"],
    "serve": ["serve", "--upstream", NOBODY, "--no-otlp", "--store", "turns.db", "--suite", "suite.yaml"],
}
CASES = "cases: [{id: a, turns: [{user: hi}]}]\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def complaint(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says of suite.yaml."""
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *COMMANDS[command]])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    (line,) = err.splitlines()
    assert not Path("turns.db").exists()
    return line


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("suite: x\nevaluators:\n  - tool_eror\n" + CASES, "3:5", "tool_error"),
        ("suite: x\nevaluators: [{tool_error: {thresold: 1}}]\n" + CASES, "2:28", "threshold"),
        ("suite: x\nevaluators: [{tool_error: {threshold: high}}]\n" + CASES, "2:28", "must be a number"),
        ("suite: x\nevaluators: [{tool_error: {threshold: 7}}]\n" + CASES, "2:28", "between 0 and 1"),
        ("suite: x\nevaluators: [tool_error, tool_error]\n" + CASES, "2:26", "tool_error is already used"),
        (
            "suite: x\ncases:\n- {id: a, turns: [{user: hi}]}\n- {id: a, turns: [{user: hi}]}\n",
            "4:4",
            "'a' is already the id",
        ),
        ("suite: x\nplugins: [no-such.py]\n" + CASES, "2:11", "no-such.py"),
        ("suite: x\ntools: no-such.json\n" + CASES, "2:1", "no such file: no-such.json"),
        ("suite: x\ncases: 3\n", "2:1", "expected a list"),
        ("suite: x\ncases: [{id: a, turns: []}]\n", "2:17", "at least one turn"),
        ("suite: x\ngates: &a {tool_error: *a}\n" + CASES, "2:24", "contains itself"),
        ("suite: x\nsuite: y\n" + CASES, "2:1", "repeated"),
        ("suite: [", "2:1", ""),
        ("", "", "empty"),
        ('{"cases": [], "suite": 3}', "1:15", "expected a string"),
        ("suite: x\ncases: [{id: a, expect: {tool_calls: []}, turns: [{user: hi}]}]", "2:17", "scores conversations"),
    ],
)
def test_a_wrong_suite(
    command: str,
    text: str,
    position: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("suite.yaml").write_text(text)
    said = complaint(command, monkeypatch, capsys)
    assert said.startswith(f"a2a-eval-proxy: suite.yaml:{position}")
    assert problem in said


@pytest.mark.parametrize("command", COMMANDS)
def test_no_file_at_all(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "suite.yaml: cannot be read: No such file" in complaint(command, monkeypatch, capsys)
    Path("suite.yaml").mkdir()
    problem = "the folder has no suite"
    assert f"suite.yaml: {problem}" in complaint(command, monkeypatch, capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_no_text(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("suite.yaml").write_bytes(b"suite: \xff\n")
    assert "suite.yaml: is not UTF-8: byte 7" in complaint(command, monkeypatch, capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_huge_file_is_refused_unread(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("suite.yaml").open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    assert "suite.yaml: is larger than" in complaint(command, monkeypatch, capsys)


def test_names_of_formats_are_those_of_the_importers() -> None:
    from a2a_eval_proxy.cli.options import RunOptions
    from a2a_eval_proxy.settings.options import options_of
    from tool_call_evaluators.importers import FORMATS

    assert options_of(RunOptions)["format"].type.choices == FORMATS
