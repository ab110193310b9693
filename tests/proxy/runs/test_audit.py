"""The audit log: lines of commands, its file, and what happens where it cannot be written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.runs import audit
from click.testing import CliRunner, Result
from support.stored_runs import store_turns
from support.turn_samples import call, turn


@pytest.fixture(autouse=True)
def _log_of_others() -> Iterator[None]:
    yield
    audit.logger.handlers, audit.logger.propagate = [], True


def facts(line: str) -> dict[str, Any]:
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \w+=", line)
    found = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)', line)
    assert line[25:] == " ".join(f"{name}={value}" for name, value in found)
    return {name: json.loads(value) for name, value in found}


def command(*words: str) -> Result:
    return copy_context().run(CliRunner().invoke, cli, words)


def test_each_change_of_a_command_has_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"USER": "mallory", "LOGNAME": "mallory", "A2A_EVAL_PROXY_AUDIT_LOG": "audit.log"}.items():
        monkeypatch.setenv(name, value)
    store_turns(Path("turns.db"), [turn("one", "Hi", [call("look_up")])], "monday")
    suite = 'x" by="admin token\n\u202ey.yaml'
    for words in (
        ("record", "--run", "monday", "--out", suite),
        ("prune", "--retain-days", "1", "--dry-run"),
        ("runs",),
        ("prune", "--retain-mb", "1"),
        ("record", "--run", "monday", "--out", suite),  # refused: it exists
    ):
        command(*words, "--store", "turns.db") if words[0] != "runs" else command("runs")
    lines = [facts(line) for line in Path("audit.log").read_text("ascii").splitlines()]
    assert [(line["did"], line["by"]) for line in lines] == [("record", "command"), ("prune", "command")]
    assert "mallory" not in str(lines)
    assert lines[0]["file"] == str(tmp_path / suite)
    assert lines[1]["deleted"] == 0
    assert Path("audit.log").stat().st_mode & 0o777 == 0o600


def test_a_command_that_cannot_log_changes_nothing(tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    store_turns(store, [turn("one", "Hi")], "monday")
    for log in (tmp_path, tmp_path / "missing" / "audit.log"):
        refused = command(
            "record", "--out", str(tmp_path / "suite.yaml"), "--store", str(store), "--audit-log", str(log)
        )
        assert "audit_log" in str(refused.exception)
        assert not (tmp_path / "suite.yaml").exists()


def test_what_cannot_be_written_to_the_file_is_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "audit.log"
    audit.write_to(file)
    file.unlink()
    file.mkdir()
    audit.Entry({"did": "x"}).log(status=200)
    assert "cannot be written (Is a directory): " in caplog.text
    assert 'did="x" status=200' in caplog.text


def test_many_writers_share_a_file_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_BYTES", 5_000)
    file = tmp_path / "audit.log"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: audit._append(file, f"{number:04}{'x' * 200}\n".encode()), range(200)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.log", "audit.log.1"]
    kept = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert len(set(kept)) == len(kept) > 5_000 // 205
    assert {len(line) for line in kept} == {204}
    assert all(path.stat().st_size <= 5_000 for path in tmp_path.iterdir())
    file.rename(tmp_path / "moved")  # as logrotate does
    audit._append(file, b"new\n")
    assert file.read_text() == "new\n"
