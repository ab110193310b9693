"""What came of a run, for people and machines: HTML, JUnit XML, Markdown, JSON. Data in, text out.

report = Report.build("nightly", turns, verdict.to_dict(), suite=suite)
Path("report.html").write_text(html_report(report), "utf-8")
"""

from .compared import comparison_json, comparison_markdown, comparison_text
from .html import html_report
from .jsonform import json_report
from .junit import junit_xml
from .markdown import markdown_summary
from .model import Report
from .shorten import shortened_turn

__all__ = [
    "Report",
    "comparison_json",
    "comparison_markdown",
    "comparison_text",
    "html_report",
    "json_report",
    "junit_xml",
    "markdown_summary",
    "shortened_turn",
]
