"""Markdown that is short enough for a CI job's page ($GITHUB_STEP_SUMMARY): of a run, and of a comparison.

Texts of the agent are escaped: they cannot contain links, images or HTML.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..outcomes.comparison import Comparison
from ..texts import counted, duration_text, escaped, gate_name, gate_sign
from .causes import causes
from .compared import ShownComparison, change_line
from .model import Report, seconds_between, verdict_sign, verdict_words

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
    return _rendered("comparison.md", shown=ShownComparison.of(comparison))


def _rendered(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(signs=_SIGNS, **values).rstrip("\n") + "\n"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=False,  # noqa: S701  # that is of HTML: `finalize` escapes for Markdown
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else escaped(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "counted": counted,
        "long": lambda text: Markup(escaped(text, 600)),  # noqa: S704  # escaped for Markdown
        "number": "{:,}".format,
    }
    return made
