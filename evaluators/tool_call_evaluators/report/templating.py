"""Texts made of templates: plain ones, and Markdown, whose values cannot contain links, images or HTML."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..matching.placeholders import readable
from ..outcomes.calibration import agreement_text, percent
from ..outcomes.conversations import excluded_text
from ..simulation.record import user_text
from ..texts import (
    call_text,
    cost_text,
    counted,
    duration_text,
    escaped,
    excerpt,
    json_excerpt,
    moment_text,
    one_line,
    score_text,
    state_text,
    tokens_text,
)

_OWN = PackageLoader(__package__ or "", "templates")
_SIGNS = {"passed": "✅", "failed": "❌", "worse": "❌", "better": "✅", "changed": "➖"}
MAX_TEXT = 500
"""Characters of a text in a transcript ..."""
LONGEST = 2_000
"""... and of one in a turn."""


def _on_one_line(text: str) -> str:
    return " ".join(text.splitlines())


def plain_text(template: str, templates: BaseLoader = _OWN, escape: Callable[[str], str] = str, **values: Any) -> str:
    """The text of a template, of this package or of others; `escape` is applied to each value."""
    return _environment(escape, templates).get_template(template).render(**values).rstrip("\n")


def plain_lines(
    template: str, templates: BaseLoader = _OWN, escape: Callable[[str], str] = _on_one_line, **values: Any
) -> list[str]:
    """The lines of a template, in which no value begins a line: `escape` leaves none a line break."""
    return [line for line in plain_text(template, templates, escape, **values).split("\n") if line]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… (--output json shows all)"


def markdown(template: str, **values: Any) -> str:
    """The text of a template, whose values Markdown shows as they are."""
    return plain_text(template, escape=escaped, signs=_SIGNS, **values) + "\n"


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
        "cost": cost_text,
        "counted": counted,
        "cut": partial(excerpt, limit=MAX_TEXT),
        "call": call_text,
        "duration": duration_text,
        "excluded": excluded_text,
        "json": json_excerpt,
        "line": one_line,
        "long": _cut if escape is str else lambda text: Markup(escaped(text, 600)),  # noqa: S704  # for Markdown
        "moment": moment_text,
        "percent": percent,
        "score": score_text,
        "share": "{:.0%}".format,
        "state": state_text,
        "tokens": tokens_text,
        "user": user_text,
        "number": "{:,}".format,
        "readable": lambda value: excerpt(readable(value)),
    }
    return made
