"""A comparison of two runs as an HTML page: one file without scripts, in the style of the report."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from string import Template
from xml.etree import ElementTree as ET

from a2a_tool_capture.models import ToolCall

from ..matching.call_diff import CallChange
from ..runs.changes import CaseChange, Comparison, TurnChange
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
from .html import asset, content_hash
from .overview import element, html_text, table
from .wording import printable

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
    style = asset("report.css")
    return Template(asset("comparison.html")).substitute(
        policy=f"default-src 'none'; style-src {content_hash(style)}; base-uri 'none'; form-action 'none'",
        title=escape(printable(headline(comparison))),
        style=style,
        body=comparison_body(comparison),
    )


def comparison_body(comparison: Comparison) -> str:
    """The content of the page, as HTML. Every text is escaped."""
    cases = (_case(index, case) for index, case in enumerate(changed_cases(comparison)[:MAX_CASES]))
    more = (element("p.note", line) for line in more_cases(comparison))
    return html_text([_masthead(comparison), _scores(comparison), *cases, *more])


def _masthead(comparison: Comparison) -> ET.Element:
    words, tone = answer(comparison)
    verdict = element(
        f"p.verdict.{ {'better': 'passed', 'changed': 'undecided'}.get(tone, 'failed') }", words.capitalize()
    )
    counts = comparison.counts
    tiles = [
        element("div", element("dt", words), element("dd", element("b", f"{counts[status]:,}")))
        for status, (words, _) in STATUSES.items()
        if status in counts
    ]
    return element(
        "header.masthead",
        element("div.headline", element("h1", f"{comparison.before} → {comparison.after}"), verdict),
        element("dl.tiles", *tiles),
        _lines(notices(comparison)),
    )


def _lines(lines: Iterable[tuple[str, str | None]]) -> ET.Element:
    return element("ul.lines", *(element(f"li.{tone or 'plain'}", text, dir="auto") for text, tone in lines))


def _scores(comparison: Comparison) -> ET.Element | None:
    scores = score_changes(comparison)
    if not scores:
        return None
    rows = []
    for score in scores:
        metric, *numbers = score_cells(score)
        kind = ".bad" if score.fell else ""
        named = zip(SCORE_HEAD[1:], numbers, strict=True)
        cells = (element(f"td.number{kind}", number, data_head=name) for name, number in named)
        rows.append(element("tr", element("th", metric, scope="row"), *cells))
    scroll = element("div.scroll", table("toolstats.compared-scores", SCORE_HEAD, rows), tabindex="0")
    return element("section", element("h2", "Scores"), scroll)


def _case(index: int, case: CaseChange) -> ET.Element:
    word, _ = STATUSES[case.status]
    link = element("a", case.case, href=f"#case-{index}")
    turns = [part for turn in case.turns for part in _turn(turn)]
    return element(
        "section.turn",
        element("h2", f"{word}: ", link, element("span.turn-facts", rate(case))),
        _lines(case_lines(case, calls=False)),
        *turns,
        id=f"case-{index}",
    )


def _turn(turn: TurnChange) -> list[ET.Element]:
    if not turn.changes:
        return []
    rows = (_change(change, turn) for change in turn.changes)
    return [element("h3", f"Turn {turn.turn}"), element("ol.calls.compared", *rows)]


def _change(change: CallChange, turn: TurnChange) -> ET.Element:
    sign, words = MARKS[change.kind]
    differing = [difference.path for difference in change.differences]
    mark = element("span.mark", sign, element("span.unseen", f" {words}"), title=words)
    before = None if change.left is None else turn.before[change.left]
    after = None if change.right is None else turn.after[change.right]
    return element(f"li.{change.kind}", mark, _cell("before", before, differing), _cell("after", after, differing))


def _cell(title: str, call: ToolCall | None, differing: list[str]) -> ET.Element:
    heading = element("span.cell-title", title)
    if call is None:
        return element("div.cell.nothing", heading, element("p.quiet", "–"))
    rows = []
    for key, value in sorted((call.arguments or {}).items()):
        differs = any(not path or path == key or path.startswith((f"{key}.", f"{key}[")) for path in differing)
        text = json_excerpt(value, MAX_VALUE)
        rows.append(
            element(f"div.argument{'.differs' if differs else ''}", element("dt", key), element("dd", text, dir="ltr"))
        )
    empty = "unknown arguments" if call.arguments is None else "no arguments"
    arguments = element("dl.arguments", *rows) if rows else element("p.quiet", empty)
    return element("div.cell", heading, element("div.call", element("code.tool", call.name), arguments, dir="ltr"))
