"""Reports of a run: HTML, JUnit XML, Markdown, JSON. Data in, text out.

    report = build_report("nightly", turns, verdict.to_dict(), suite=suite)
    Path("report.html").write_text(html_report(report), "utf-8")

`html` has the static parts of the pages, `page` the data of the interactive part. A *focus suite* repeats the
failed cases. The names exported here are public.
"""

from .compared import comparison_json, comparison_text
from .focus import focus_suites
from .html import comparison_html, html_report
from .json_output import json_report
from .junit import junit_xml
from .model import build_report
from .text_forms import comparison_markdown, markdown_summary

__all__ = [
    "build_report",
    "comparison_html",
    "comparison_json",
    "comparison_markdown",
    "comparison_text",
    "focus_suites",
    "html_report",
    "json_report",
    "junit_xml",
    "markdown_summary",
]
