"""The HTML report: one self-contained file whose content security policy allows no other resource."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from importlib.resources import files
from string import Template

from .model import Report
from .overview import overview
from .page import page_data
from .wording import printable

SCRIPTS = ("elements.js", "calls.js", "timings.js", "conversation.js", "cases.js", "matrix.js", "page.js")
"""In order of dependency."""


def html_report(report: Report) -> str:
    """The whole page. The policy allows its script and style by hash only; all data is escaped or JSON."""
    style = asset("report.css")
    script = '"use strict";\n(() => {\n' + "\n".join(map(asset, SCRIPTS)) + "\n})();\n"
    title = f"{'Passed' if report.passed else 'Failed'}: {', '.join(dict.fromkeys((report.title, report.run)))}"
    return Template(asset("report.html")).substitute(
        policy=f"default-src 'none'; script-src {content_hash(script)}; style-src {content_hash(style)}; "
        "base-uri 'none'; form-action 'none'",
        title=escape(printable(title)),
        style=style,
        overview=overview(report),
        baseline=escape(printable(report.baseline.before if report.baseline else "")),
        trace_url=escape(printable(report.trace_url)),
        agent=escape(printable(report.agents[0] if len(report.agents) == 1 else "")),
        data=page_data(report),
        script=script,
    )


def asset(name: str) -> str:
    """The text of a file in assets/."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def content_hash(text: str) -> str:
    """The source expression of a content security policy that allows `text`."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
