"""The Jinja environment: every value is escaped and neutralized, and a missing one is an error."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from a2a_tool_capture.canonical import with_whole_numbers
from jinja2 import Environment, PackageLoader, StrictUndefined
from tool_call_evaluators.matching.placeholders import readable
from tool_call_evaluators.report.templates import shown
from tool_call_evaluators.report.wording import counted, cut, duration_text, one_line, score_text

from ..settings.parsing import TRACE_ID
from .links import named
from .turn_rows import turn_row

SIGNS = {
    "passed": "✓", "failed": "✕", "errored": "!", "skipped": "–", "scored": "·", "unscored": "–",
    "open": "…", "pending": "…", "incomplete": "…", "noted": "~", "invalid": "!", "warning": "!", "not seen": "?",
}  # fmt: skip

SOURCES = {
    "a2a_protocol": "A2A",
    "otel_trace": "OpenTelemetry",
    "openai_agents": "OpenAI Agents SDK",
    "a2e": "A2E",
    "adk": "google-adk",
}
_ROUNDED = re.compile(r"\d{16}|\d[eE]")


class Absent(StrictUndefined):
    """A missing value is false, since data of the report has no empty values; any other use is an error."""

    def __bool__(self) -> bool:  # type: ignore[override]  # the other one never returns
        return False


def environment(trace_url: str | None = None) -> Environment:
    """Templates of this package, with the wording of the report as filters. `trace_url`: see `TraceUrlOption`."""
    made = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=Absent,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "counted": counted,
        "cut": cut,
        "duration": duration_text,
        "json": json_line,
        "line": one_line,
        "pretty": pretty,
        "readable": readable,
        "score": score_text,
        "sentence": sentence,
        "trace_address": trace_address,
        "source_name": lambda source: SOURCES.get(source, source),
    }
    made.globals |= {"signs": SIGNS, "named": named, "row_of": turn_row, "trace_url": trace_url}
    return made


def trace_address(trace_id: str, trace_url: str) -> str:
    return trace_url.replace(TRACE_ID, quote(trace_id, safe=""))


def pretty(value: Any) -> str:
    """JSON on several lines, from data or from text. Any other text, and numbers that would be rounded, as they are."""
    try:
        if isinstance(value, str):
            if _ROUNDED.search(value):
                return value
            value = with_whole_numbers(json.loads(value))
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        return str(value)


def json_line(value: Any) -> str:
    """JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def sentence(text: str) -> str:
    """`text` with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")
