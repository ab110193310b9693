"""Texts made of templates: Markdown for a CI job's page ($GITHUB_STEP_SUMMARY), and a turn for a terminal.

Texts of the agent are escaped: they cannot contain links, images or HTML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..outcomes.calibration import MIN_LABELS, agreement_text, percent, scope_of
from ..outcomes.comparison import Comparison
from ..outcomes.conversations import TurnJson
from ..simulation.record import user_text
from ..texts import (
    call_text,
    counted,
    duration_text,
    escaped,
    excerpt,
    gate_name,
    gate_sign,
    moment_text,
    printable,
    score_text,
    state_text,
)
from .causes import causes
from .compared import change_line, shown_comparison
from .model import Report, seconds_between, verdict_sign, verdict_words

_OWN = PackageLoader(__package__ or "", "templates")
_SIGNS = {"passed": "✅", "failed": "❌", "worse": "❌", "better": "✅", "changed": "➖"}
MAX_ROWS = 50
"""Maximum number of rows of a table; the number of further rows follows."""


def markdown_summary(report: Report) -> str:
    """Verdict, causes, gates and scores; at most about 100 kB for any run."""
    return _rendered(
        "summary.md",
        report=report,
        took=duration_text(seconds_between(report.started_at, report.ended_at)),
        causes=causes(report),
        verdict_sign=verdict_sign,
        words=verdict_words(report),
        change_line=change_line,
        gate_name=gate_name,
        gate_sign=gate_sign,
        max_rows=MAX_ROWS,
    )


def comparison_markdown(comparison: Comparison) -> str:
    """The answer, each case that changed, then the figures."""
    return _rendered("comparison.md", shown=shown_comparison(comparison))


MAX_TEXT = 500
"""Characters of a text in a transcript ..."""
LONGEST = 2_000
"""... and in `turn_text`."""


def turn_text(turn: TurnJson) -> str:
    """All of a turn, for a terminal: messages, calls with their results, scores with their reasons, annotations,
    findings."""
    seconds = seconds_between(turn["started_at"], turn["ended_at"])
    return printable(plain_text("turn.txt", turn=turn, seconds=seconds, longest=LONGEST))


def calibration_lines(made: Mapping[str, Any]) -> list[str]:
    """A calibration in sentences, the most important first; without the disagreements."""
    return plain_text("calibration.txt", made=made, scope=scope_of(made), least=MIN_LABELS).splitlines()


def plain_text(template: str, templates: BaseLoader = _OWN, **values: Any) -> str:
    """The text of a template, of this package or of others, without escapes."""
    return _environment(str, templates).get_template(template).render(**values).rstrip("\n")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… (--output json shows all)"


def _rendered(template: str, **values: Any) -> str:
    return _environment(escaped).get_template(template).render(signs=_SIGNS, **values).rstrip("\n") + "\n"


@cache
def _environment(escape: Callable[[str], str], templates: BaseLoader = _OWN) -> Environment:
    made = Environment(
        loader=templates,
        autoescape=False,  # noqa: S701  # that is of HTML: `finalize` escapes for Markdown
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else escape(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "agreement": agreement_text,
        "counted": counted,
        "cut": partial(excerpt, limit=MAX_TEXT),
        "call": call_text,
        "duration": duration_text,
        "long": _cut if escape is str else lambda text: Markup(escaped(text, 600)),  # noqa: S704  # for Markdown
        "moment": moment_text,
        "percent": percent,
        "score": score_text,
        "state": state_text,
        "user": user_text,
        "number": "{:,}".format,
    }
    return made
