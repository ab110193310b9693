"""A comparison of two runs as an HTML page: one file without scripts, in the style of the report."""

from __future__ import annotations

from collections.abc import Iterable

from ..runs.changes import Comparison
from ..texts import json_excerpt
from .compared import (
    MAX_CASES,
    SCORE_HEAD,
    STATUSES,
    answer,
    case_lines,
    changed_cases,
    headline,
    more_cases,
    notices,
    rate,
    score_cells,
    score_changes,
)
from .html import standalone_page
from .templates import rendered

MARKS = {
    "same": ("=", "unchanged"),
    "moved": ("↕", "moved"),
    "changed": ("≠", "different arguments"),
    "removed": ("−", "only before"),
    "added": ("+", "only after"),
}
MAX_VALUE = 2_000
"""Maximum length of an argument, in characters."""


def comparison_html(comparison: Comparison) -> str:
    """The whole page. Its policy allows its own style and nothing else; all texts are escaped."""
    return standalone_page("page.html", headline(comparison), comparison_body(comparison))


def comparison_body(comparison: Comparison) -> str:
    """The content of the page, as HTML. Every text is escaped."""
    return rendered(
        "comparison_body.html",
        comparison=comparison,
        answer=answer(comparison),
        statuses=STATUSES,
        marks=MARKS,
        score_head=SCORE_HEAD,
        scores=score_changes(comparison),
        cases=changed_cases(comparison)[:MAX_CASES],
        more=more_cases(comparison),
        notices=notices,
        case_lines=case_lines,
        rate=rate,
        score_cells=score_cells,
        differs=_differs,
        value_text=lambda value: json_excerpt(value, MAX_VALUE),
    ).rstrip("\n")


def _differs(key: str, differing: Iterable[str]) -> bool:
    """Whether one of the paths that differ concerns the argument `key`."""
    return any(not path or path == key or path.startswith((f"{key}.", f"{key}[")) for path in differing)
