"""Cases are appended to the suite file on disk, and to nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.runs import files, suite_file
from a2a_eval_proxy.runs.suite_file import SuiteFileError, append_case
from tool_call_evaluators.suite import Case, CaseTurn, SuiteError, load_suite

CASE = Case(id="new", turns=(CaseTurn("hi"),))
TEXT = "# ours\r\nsuite: orders\r\nevaluators: [tool_error]\r\ncases: []  # none yet\r\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    path.chmod(0o640)
    return path


def test_the_file_has_the_case_and_all_it_had(path: Path) -> None:
    link = path.with_name("link.yaml")
    link.symlink_to(path)
    append_case(link, CASE)
    assert [case.id for case in load_suite(path).cases] == ["new"]
    content = path.read_bytes()
    assert content.startswith(b"\xef\xbb\xbf# ours\r\nsuite: orders\r\nevaluators: [tool_error]\r\ncases: [")
    assert content.endswith(b"]  # none yet\r\n")
    assert (link.is_symlink(), path.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(item.name for item in path.parent.iterdir()) == ["link.yaml", "orders.yaml"]


@pytest.mark.parametrize("text", ["{", "[]", "suite: a\nnonsense: 1\n", "evaluations: []\n"])
def test_a_file_in_another_form_stays_as_it_is(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(SuiteError, match=r"orders\.yaml"):
        append_case(path, CASE)
    assert path.read_text() == text


def test_a_file_that_another_program_changed_meanwhile_stays_as_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copymode(*_: object) -> None:
        path.write_text("suite: theirs\n")

    monkeypatch.setattr(files.shutil, "copymode", copymode)
    with pytest.raises(SuiteFileError, match="was changed by another program meanwhile; try again"):
        append_case(path, CASE)
    assert path.read_text() == "suite: theirs\n"
    assert [item.name for item in path.parent.iterdir()] == ["orders.yaml"]


def test_a_read_only_file_stays_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o440)
    monkeypatch.setattr(suite_file.os, "access", lambda *_: False)  # root may write it all the same
    with pytest.raises(SuiteFileError, match="is read-only; make it writable"):
        append_case(path, CASE)
    assert path.read_bytes().endswith(TEXT.encode())
