"""Changes suite files: each as a whole, and not if another program has changed it meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from tool_call_evaluators.suite import Case, SuiteError, parse_suite
from tool_call_evaluators.suite.editing import with_case
from tool_call_evaluators.suite.model import CombinedSuite
from tool_call_evaluators.suite.yaml_document import read_text

from ..scoring.case_book import CaseBook
from .files import ChangedMeanwhileError, write_file

_BOM = "\ufeff"


class SuiteFileError(Exception):
    """The file cannot be written, or has changed meanwhile; the message says which, and what to do."""


async def add_to_suite(
    file: str, books: Collection[CaseBook], case: Case, comments: Sequence[str], *, allow_plugins: bool = False
) -> None:
    """Append the case to the `file` of the suite, then to that suite in each of the `books`.

    Raises SuiteError and SuiteFileError.
    """
    if any(isinstance(book.suite, CombinedSuite) for book in books):
        raise SuiteError("is a folder of several suites; copy the case into one of its files", file)
    await asyncio.to_thread(append_case, Path(file), case, comments, allow_plugins=allow_plugins)
    for book in books:
        if (suite := book.suite) is not None:
            book.extend(replace(suite, cases=(*suite.cases, case.completed(suite))))


def append_case(path: Path, case: Case, comments: Sequence[str] = (), *, allow_plugins: bool = False) -> None:
    """Append the case to the suite in the file at `path`; raises as `change_suite_file`."""
    change_suite_file(path, lambda text: with_case(text, case, comments, str(path)), allow_plugins=allow_plugins)


def change_suite_file(path: Path, change: Callable[[str], str], *, allow_plugins: bool = False) -> None:
    """Replace the suite file at `path` as a whole by what `change` makes of its text.

    Raises SuiteError where the file is no suite in this project's own format, or not after the change; SuiteFileError.
    """
    target = path.resolve()  # a link stays a link
    text = read_text(target)
    try:
        before = target.read_bytes()
        if not os.access(target, os.W_OK):
            raise SuiteFileError(f"{path} is read-only; make it writable, or copy the change into another file")
        changed = change(text)
        parse_suite(changed, str(path), allow_plugins=allow_plugins)
        write_file(target, (_BOM if before.startswith(_BOM.encode()) else "") + changed, before=before)
    except ChangedMeanwhileError:
        raise SuiteFileError(f"{target} was changed by another program meanwhile; try again") from None
    except OSError as error:
        raise SuiteFileError(f"{path} cannot be written: {error.strerror or error}") from error
