"""Standard output and error of commands, whatever their encoding is and whoever wrote what they show."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

import click

from ..errors import UNREACHABLE
from ..runs.files import write_out

_COMMAND = re.compile(r"((?:\A|(?<=[\r\n]))[^\S\r\n]*:|##\w*)([:\[])")
"""GitHub executes `::error::` at the beginning of a line, and `##[error]` anywhere:
https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs. Azure executes `##vso[...]`.
"""
_STEERING = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]|\x1b(?!\[)|\r(?!\n|\x1b)"
)
"""Control characters except those of colours and progress bars, which `printable` removes from others' text."""
_NOT_ASCII = re.compile("[^\x00-\x7e]")
_LONGEST_BEGINNING = 1_000  # characters of an unfinished line that are kept to recognize a command that comes in pieces


def _escaped(text: str) -> str:
    """As JSON escapes it, so that JSON with it has the same value."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True))


def guarded(text: str) -> str:
    """`text` with what would steer a terminal or a CI job escaped: a run, an agent or a user may be named so."""
    if "::" in text or "##" in text:
        text = _COMMAND.sub(lambda found: found[1] + _escaped(found[2]), text)
    return _STEERING.sub(lambda found: _escaped(found[0]), text)


class OutputError(Exception):
    """Standard output takes nothing more; the message says why."""

    exit_code = UNREACHABLE


_BROKEN_PIPE = 141
"""The exit code of a command whose reader has gone, as `| head` does: that of SIGPIPE in a shell."""


class GuardedStream:
    """A text stream that takes any text and writes it `guarded`.

    What its encoding lacks is written as `\\u20ac`. If the stream takes nothing, the command ends, unless it is
    `optional`: then the text is lost.
    """

    def __init__(self, stream: TextIO, *, optional: bool = False) -> None:
        self.unguarded = stream
        self.optional = optional
        self._line = ""

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Raise OutputError, or SystemExit where the reader has gone, for an OSError of the block."""
        try:
            yield
        except OSError as error:
            if self.optional:
                _discard(self.unguarded)
                return
            if isinstance(error, BrokenPipeError):
                raise SystemExit(_BROKEN_PIPE) from None
            raise OutputError(f"cannot write to standard output: {error.strerror or error}") from None

    def flush(self) -> None:
        with self.writing():
            self.unguarded.flush()

    def write(self, text: str) -> int:
        whole = guarded(self._line + text)
        encoding = self.unguarded.encoding or "utf-8"
        new = whole[len(self._line) :].encode(encoding, "backslashreplace")
        with self.writing():
            self.unguarded.write(new.decode(encoding))
        self._line = whole[max(whole.rfind("\n"), whole.rfind("\r")) + 1 :][-_LONGEST_BEGINNING:]
        return len(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer" and codecs.lookup(self.unguarded.encoding).name == "ascii":
            raise AttributeError(name)  # click would take it to write UTF-8
        return getattr(self.unguarded, name)


def _discard(stream: TextIO) -> None:
    """Send what the stream still holds nowhere, so that it does not fail again when the process ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def guarded_output() -> Iterator[None]:
    """Standard output and error are a `GuardedStream` until the end of the block."""
    out, err = GuardedStream(sys.stdout), GuardedStream(sys.stderr, optional=True)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            yield
        finally:
            out.optional = True  # the command has ended, and has its exit code
            out.flush()
            err.flush()


def unguarded(stream: TextIO) -> TextIO:
    """The stream for our own commands to a CI job."""
    found: TextIO = getattr(stream, "unguarded", stream)
    return found


class JsonOutput:
    """Standard output for JSON: in ASCII, with escapes, if its encoding is not UTF-8."""

    def write(self, text: str) -> int:
        utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
        return sys.stdout.write(text if utf8 else _NOT_ASCII.sub(lambda found: _escaped(found[0]), text))


def echo_json(data: Any) -> None:
    """Write `data` as JSON on several lines to standard output."""
    JsonOutput().write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def echo_document(text: str) -> None:
    """Write a suite or a page to standard output: in UTF-8 whatever its encoding is, as into a file."""
    stream = unguarded(sys.stdout)
    with getattr(sys.stdout, "writing", nullcontext)():
        stream.flush()
        stream.buffer.write(text.encode("utf-8", "replace"))
        stream.buffer.flush()


def refuse_existing(out: Path | None) -> None:
    """Raise UsageError for a file that already exists."""
    if out is not None and out.exists():
        raise click.UsageError(f"--out: {out} already exists; choose another file (existing files are kept)")


def put_document(text: str, out: Path | None) -> None:
    """Write a suite to a file, or to standard output. Raises OSError."""
    if out is None:
        echo_document(text)
    else:
        write_out(out, text)
