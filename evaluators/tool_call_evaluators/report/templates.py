"""The Jinja environment of the HTML reports. Every value is escaped and `printable`; a missing one is an error."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from .wording import counted, cut, duration_text, printable


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"counted": counted, "cut": cut, "duration": duration_text, "number": "{:,}".format}
    return made


def shown(value: Any) -> Any:
    """Texts without control characters, and with visible bidirectional ones; nothing for None."""
    if value is None:
        return ""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def rendered(template: str, **values: Any) -> str:
    """The HTML of a template, without the line break at its end."""
    return environment().get_template(template).render(**values)
