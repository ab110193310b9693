"""Files for the user: whole, with the mode of any other file, and never written through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from a2a_eval_proxy.runs.files import write_file, write_out


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_is_replaced_whole_with_the_mode_of_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o640)
    before = os.umask(umask)
    try:
        write_file(path, "now \u00e9")
    finally:
        os.umask(before)
    assert path.read_text("utf-8") == "now \u00e9"
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_not_followed(tmp_path: Path, there: bool) -> None:
    victim = tmp_path / "victim"
    if there:
        victim.write_text("precious")
    path = tmp_path / "report.html"
    path.symlink_to(victim)
    with pytest.raises(OSError, match=r"symbolic link.*report\.html"):
        write_file(path, "ours")
    assert not victim.exists() or victim.read_text() == "precious"
    assert path.is_symlink()


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    write_out(Path(f"/proc/self/fd/{writing}"), "hello")
    os.close(writing)
    assert os.read(reading, 100) == b"hello"
    os.close(reading)


def test_a_text_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "\ud800")
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_pipe_gives_way_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_file(path, "ours")
    assert os.read(reading, 10) == b""
    os.close(reading)
    assert path.read_text() == "ours"
