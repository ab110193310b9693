"""The HTML report: one self-contained file whose content security policy allows no other resource."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files

from markupsafe import Markup

from .model import Report
from .overview import overview
from .page import page_data
from .templates import rendered

SCRIPTS = ("elements.js", "calls.js", "timings.js", "conversation.js", "cases.js", "matrix.js", "page.js")
"""In order of dependency."""


def html_report(report: Report) -> str:
    """The whole page. The policy allows its script and style by hash only; all data is escaped or JSON."""
    return standalone_page(
        "report.html",
        f"{'Passed' if report.passed else 'Failed'}: {', '.join(dict.fromkeys((report.title, report.run)))}",
        overview(report),
        '"use strict";\n(() => {\n' + "\n".join(map(asset, SCRIPTS)) + "\n})();\n",
        baseline=report.baseline.before if report.baseline else "",
        trace_url=report.trace_url,
        agent=report.agents[0] if len(report.agents) == 1 else "",
        data=Markup(page_data(report)),  # noqa: S704  # JSON that is safe inside a script element
    )


def standalone_page(template: str, title: str, content: str, script: str = "", **values: str) -> str:
    """A page with this content, which is HTML. Its policy allows the report's style and `script`, and nothing else."""
    style = asset("report.css")
    allowed = ["default-src 'none'", *([f"script-src {_hash(script)}"] if script else []), f"style-src {_hash(style)}"]
    policy = "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])
    ours = {"policy": policy, "style": style, "content": content, "script": script}
    return rendered(template, title=title, **{name: Markup(text) for name, text in ours.items()}, **values)  # noqa: S704


def asset(name: str) -> str:
    """The text of a file in assets/."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    """The source expression of a content security policy that allows `text`."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
