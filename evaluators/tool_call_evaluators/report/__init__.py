"""Reports of a run: HTML, JUnit XML, Markdown, JSON. Data in, text out.

    report = Report.build("nightly", turns, verdict.to_dict(), suite=suite)
    Path("report.html").write_text(html_report(report), "utf-8")

`overview` is the static part of the HTML report, `page` the data of the interactive part. A *focus suite* repeats the
failed cases. The names exported here are public; each is imported on first use. No other module of this package
imports this one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compared import comparison_json, comparison_markdown, comparison_text
    from .focus import focus_suites
    from .html import html_report
    from .json_output import json_report
    from .junit import junit_xml
    from .markdown import markdown_summary
    from .model import Report
    from .shorten import shortened_turn

_MODULES = {
    "Report": "model",
    "comparison_json": "compared",
    "comparison_markdown": "compared",
    "comparison_text": "compared",
    "focus_suites": "focus",
    "html_report": "html",
    "json_report": "json_output",
    "junit_xml": "junit",
    "markdown_summary": "markdown",
    "shortened_turn": "shorten",
}

__all__ = [
    "Report",
    "comparison_json",
    "comparison_markdown",
    "comparison_text",
    "focus_suites",
    "html_report",
    "json_report",
    "junit_xml",
    "markdown_summary",
    "shortened_turn",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
