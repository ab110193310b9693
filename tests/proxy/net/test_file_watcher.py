"""Files that are replaced while a watcher runs, in the ways in which they are."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.net import file_watcher
from a2a_eval_proxy.net.file_watcher import FileWatch
from support.patience import PATIENCE_S


class Reader:
    """Reads a file; what begins with `bad` is no good."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: list[str] = []
        self.attempts = 0
        self.meanwhile: Callable[[], None] = lambda: None

    def load(self) -> None:
        self.attempts += 1
        text = self.path.read_text() if self.path.exists() else "bad: missing"
        self.meanwhile()
        if text.startswith("bad"):
            raise ConfigError(f"{self.path.name}: {text}")
        self.values.append(text)


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    path = tmp_path / "value"
    path.write_text("one")
    return Reader(path)


@pytest.fixture
def watch(reader: Reader) -> FileWatch:
    watch = FileWatch()
    watch.add("the value", [str(reader.path)], reader.load)
    return watch


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def in_place(path: Path) -> None:
    """Its time stays: contents count."""
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def by_a_rename(path: Path) -> None:
    (path.parent / "fresh").write_text("two")
    (path.parent / "fresh").rename(path)


STORIES: dict[str, tuple[list[Callable[[Path], object]], list[str], list[str]]] = {
    "nothing changes": ([lambda path: os.utime(path, (1, 1))], ["one"], []),
    "it is written": ([in_place], ["one", "two"], []),
    "it is renamed": ([by_a_rename], ["one", "two"], []),
    "it is no good and is mended": (
        [lambda path, text=text: path.write_text(text) for text in ("bad", "bad", "bad again", "one")],  # type: ignore[misc]
        ["one", "one"],
        ["bad", "bad again"],
    ),
    "it vanishes and comes back": (
        [Path.unlink, lambda path: path.write_text("two")],
        ["one", "two"],
        ["bad: missing"],
    ),
}
"""What happens to a file, the values that it has in turn, and what is said of it, once each."""


@pytest.mark.parametrize("story", STORIES)
def test_a_file_that_changes(story: str, reader: Reader, watch: FileWatch, caplog: pytest.LogCaptureFixture) -> None:
    steps, values, said = STORIES[story]
    for step in steps:
        step(reader.path)
        watch.check()
        watch.check()
    assert reader.values == values
    assert problems(caplog) == [
        f"the value cannot be replaced, the earlier one stays in use: value: {one}" for one in said
    ]


def test_half_a_replacement_is_no_problem_yet(
    reader: Reader, watch: FileWatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A certificate that has come before its key."""
    reader.path.write_text("bad")
    reader.meanwhile = lambda: reader.path.write_text("two") and None
    watch.check()
    assert problems(caplog) == []
    watch.check()
    assert reader.values == ["one", "two"]


def test_one_that_is_no_good_does_not_stop_the_others(reader: Reader, watch: FileWatch, tmp_path: Path) -> None:
    other = Reader(tmp_path / "other")
    other.path.write_text("one")
    watch.add("the other", [str(other.path)], other.load)
    reader.path.write_text("bad")
    other.path.write_text("two")
    watch.check()
    assert other.values == ["one", "two"]


def test_the_first_time_must_succeed(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="nothing: bad: missing"):
        FileWatch().add("the value", [str(reader.path)], reader.load)


def test_pipes_are_read_once_only(tmp_path: Path) -> None:
    """To read one a second time would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    loads: list[int] = []
    watch = FileWatch()
    watch.add("the pipe", [str(tmp_path / "pipe")], lambda: loads.append(1))
    watch.check()
    assert loads == [1]


async def test_it_looks_by_itself(reader: Reader, watch: FileWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher, "CHECK_EVERY_S", 0.001)
    started = len(reader.values)
    watch.start()
    by_a_rename(reader.path)
    async with asyncio.timeout(PATIENCE_S):
        while len(reader.values) == started:
            await asyncio.sleep(0)
    await watch.close()
    assert reader.values == ["one", "two"]
