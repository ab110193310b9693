"""The HTML report: one self-contained file whose content security policy allows no other resource."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from importlib.resources import files

from .model import Report
from .overview import overview
from .page import page_data
from .wording import printable

STYLES = ("report.css",)
SCRIPTS = ("elements.js", "calls.js", "timings.js", "conversation.js", "cases.js", "page.js")
"""In order of dependency."""


def html_report(report: Report) -> str:
    """The whole page. The policy allows its script and style by hash only; all data is escaped or JSON."""
    style = "\n".join(_asset(name) for name in STYLES)
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    title = f"{'Passed' if report.passed else 'Failed'}: {report.title}, {report.run}"
    return "".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
            '<meta name="color-scheme" content="light dark">\n',
            f"<title>{escape(printable(title))}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            '<a class="skip" href="#cases">Skip to the conversations</a>\n<main>\n',
            overview(report),
            _asset("cases.html"),
            "</main>\n",
            '<script type="application/json" id="data">',
            page_data(report),
            f"</script>\n<script>{script}</script>\n</body>\n</html>\n",
        )
    )


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
