"""Adds a case to the text of a suite file: comments, order and format of all that is there stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from .editing import with_values
from .model import Case, Suite
from .writing import case_dict, comment_lines
from .yaml_document import SuiteError, json_as_yaml, read_document
from .yaml_writer import block

_NO_SUITE = Suite(name="")


def case_text(case: Case, comments: Sequence[str] = (), indent: int = 2) -> str:
    """The case as an item of `cases` in a suite file, below its `comments`."""
    lines = [*comment_lines(comments, " " * indent), *block([case_dict(case, _NO_SUITE)], indent)]
    return "\n".join(lines) + "\n"


def with_case(text: str, case: Case, comments: Sequence[str] = (), filename: str = "suite") -> str:
    """The suite in `text` with one more case, the last one: nothing of `text` is removed or changed.

    Raises SuiteError where it has a case with that id, is not a suite, or has a form to which no case can be added.
    """
    before = read_document(text, filename).value
    if not isinstance(before, dict) or not isinstance(cases := before.get("cases") or [], list):
        raise SuiteError("is not a suite file: it has no list `cases`", filename)
    if any(isinstance(one, dict) and one.get("id") == case.id for one in cases):
        raise SuiteError(f"has a case {case.id!r} already; choose another id", filename)
    after = with_values(text, {("cases",): [*cases, case_dict(case, _NO_SUITE)]}, filename)
    return _with_lines_above(after, comments)


def _with_lines_above(text: str, comments: Sequence[str]) -> str:
    """The comments above the last case, and an empty line above them if there is one above the case before; where each
    case has lines of its own."""
    parsed = json_as_yaml(text) if text.lstrip().startswith("{") else text
    suite: Any = yaml.compose(parsed, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    cases = next((value for key, value in suite.value if key.value == "cases"), None)
    if cases is None or cases.flow_style:
        return text
    start = text.rfind("\n", 0, cases.value[-1].start_mark.index) + 1
    between = text[cases.value[-3].start_mark.index : cases.value[-2].start_mark.index] if len(cases.value) > 2 else ""
    line_end = "\r\n" if "\r\n" in text else "\n"
    blank = [""] if any(not line.strip() for line in between.splitlines()[1:-1]) else []
    lines = [*blank, *comment_lines(comments, " " * cases.start_mark.column)]
    return text[:start] + "".join(line + line_end for line in lines) + text[start:]
