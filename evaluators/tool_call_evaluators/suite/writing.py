"""A suite as the text of a suite file: `parse_suite` is the inverse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..matching.equality import with_inner
from ..type_conversion import adapter
from .model import Case, Suite
from .yaml_writer import block, printable_line

SCHEMA_FILE = "suite.schema.json"
EDITOR_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE} (from `a2a-eval-proxy schema > {SCHEMA_FILE}`)"
"""The first line of a suite file: an editor with a YAML language server then completes and checks the suite."""


def suite_text(
    suite: Suite, comments: Iterable[str] = (), case_comments: Mapping[str, Sequence[str]] | None = None
) -> str:
    """`suite` as YAML, with `EDITOR_LINE` and `comments` at the top and above the cases with these ids.

    Plug-ins are written with their absolute path.
    """
    lines = [EDITOR_LINE, *comment_lines(comments, "")]
    lines += block(suite_dict(replace(suite, cases=())))
    if suite.cases:
        lines += ["", "cases:"]
        for case in suite.cases:
            lines += comment_lines((case_comments or {}).get(case.id, ()), "  ")
            lines += [*block([case_dict(case, suite)], 2), ""]
    return "\n".join(lines).rstrip() + "\n"


def comment_lines(comments: Iterable[str], pad: str) -> list[str]:
    """`comments` as lines of a suite file, indented by `pad`."""
    return [f"{pad}# {printable_line(line)}".rstrip() for comment in comments for line in comment.splitlines()]


def suite_dict(suite: Suite) -> dict[str, Any]:
    """The JSON form of a suite file; default values are omitted."""
    return _dump(Suite, replace(suite, cases=tuple(case.without(suite) for case in suite.cases)))


def case_dict(case: Case, suite: Suite) -> dict[str, Any]:
    """The JSON form of a case of `suite`."""
    return _dump(Case, case.without(suite))


def _dump(declared: type, value: Any) -> dict[str, Any]:
    written: dict[str, Any] = _plain(adapter(declared).dump_python(value, by_alias=True, exclude_defaults=True))
    return written


def _plain(value: Any) -> Any:
    """JSON data from any mappings and sequences. Half a surrogate pair stays unchanged."""
    return with_inner(value, _plain)
