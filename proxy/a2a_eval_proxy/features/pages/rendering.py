"""What pages are rendered with: rows of turns, URLs, the Jinja environment, meanings of findings."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.resources import files
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from tool_call_evaluators.matching.placeholders import is_placeholder, readable
from tool_call_evaluators.report.figures import percentile
from tool_call_evaluators.report.html import environment as report_environment
from tool_call_evaluators.report.model import OUTCOMES, seconds_between
from tool_call_evaluators.texts import in_json, one_line, score_text
from tool_call_evaluators.visibility import Calls

from ...store.base import TurnJson
from ...store.reads import turn_summary

_FEATURES = __name__.rpartition(".pages.")[0]  # their package: other features have templates, too
_MAX_TEXT = 60
_MAX_CHIPS = 6


def turn_row(turn: TurnJson) -> dict[str, Any]:
    """A turn in short (`store.turn_summary`, which `turn` may be), and what its row shows.

    `verdict` is that of the results, or the status of a turn without results yet: `open`, `pending`. `seconds` is None
    while a turn is open. `tools` have the name of a called tool, and whether the call `failed`; `more` is the number of
    the other calls; `unseen` says that there may be unknown ones. `annotated` is how people assessed the turn, in
    words; "" without annotations.
    """
    summary = turn if "verdict" in turn else turn_summary(turn)
    assessed = Counter[str](summary.get("assessments", ()))
    calls = summary["tool_calls"][:_MAX_CHIPS]
    is_done = summary["status"] == "done"
    return {
        **summary,
        "verdict": summary["verdict"] if is_done else summary["status"],
        "text": one_line(summary["user_text"], _MAX_TEXT),
        "tools": [{"name": one_line(call["name"], _MAX_TEXT), "failed": call["error"]} for call in calls],
        "more": summary["tool_call_count"] - len(calls),
        "unseen": is_done and summary["calls"] == Calls.UNKNOWN,
        "seconds": seconds_between(summary["started_at"], summary["ended_at"]),
        "annotated": ", ".join(f"{assessed[kind]} {kind}" for kind in ("right", "wrong") if assessed[kind]),
    }


class Links:
    """Makes URLs that lead from the page at `raw_path` (as in the request line) to others."""

    @classmethod
    def of(cls, request: Request) -> Links:
        return cls(request.scope.get("raw_path") or request.scope["path"].encode())

    def __init__(self, raw_path: bytes) -> None:
        self.up = "../" * (raw_path.partition(b"?")[0].count(b"/") - 1)

    def __call__(self, *segments: str, **query: str | None) -> str:
        """`turns/01a1`, `./?run=nightly`: a path from the root of the pages, with a query; None is left out."""
        path = self.up + "/".join(quote(segment, safe="") for segment in segments)
        given = urlencode({name: value for name, value in query.items() if value is not None}, errors="replace")
        return (path or "./") + (f"?{given}" if given else "")


def named(link: Callable[..., str], segment: str, name: str, **query: str | None) -> str:
    """The page below `segment` that a text of an agent or user names; the inverse is `name_in`.

    The name is in the path, or in the query if it consists of dots: browsers resolve these in a path.
    """
    return link(segment, name, **query) if name.strip(".") else link(segment, "", name=name, **query)


def name_in(request: Request) -> str:
    """The name in the URL of a page, on a route that ends with `{name:path}`."""
    return str(request.path_params["name"] or request.query_params.get("name", ""))


SIGNS = {
    "passed": "✓", "failed": "✕", "errored": "!", "skipped": "–", "scored": "·", "unscored": "–",
    "open": "…", "pending": "…", "incomplete": "…", "unjudged": "–", "noted": "~", "invalid": "!", "warning": "!",
    "not seen": "?",
}  # fmt: skip

SOURCES = {
    "a2a_protocol": "A2A",
    "otel_trace": "OpenTelemetry",
    "openai_agents": "OpenAI Agents SDK",
    "a2e": "A2E",
    "adk": "google-adk",
    "kagent": "kagent",
    "traceability": "traceability extension",
    "client": "client",
}
MAX_PARTS = 100  # of an object or list


class Absent(StrictUndefined):
    """A missing value is false, since data of the report has no empty values; any other use is an error."""

    def __bool__(self) -> bool:  # type: ignore[override]  # the other one never returns
        return False


def environment(trace_url: str | None = None) -> Environment:
    """Templates of this package and of the report, which escape and neutralize every value.

    `trace_url`: see `TraceUrlOption`.
    """
    made = report_environment(
        PackageLoader(__package__ or "", "templates"), PackageLoader(_FEATURES, ""), undefined=Absent
    )
    made.filters |= {
        "json": in_json,
        "parts": parts,
        "percentile": percentile,
        "readable": readable,
        "score": score_text,
        "sentence": sentence,
        "source_name": lambda source: SOURCES.get(source, source),
    }
    made.globals |= {
        "signs": SIGNS,
        "verdict_words": OUTCOMES,
        "named": named,
        "row_of": turn_row,
        "trace_url": trace_url,
    }
    return made


def parts(value: Any) -> list[tuple[Any, Any]]:
    """The first MAX_PARTS entries of an object or items of a list; [] for any other value, and for a placeholder."""
    if isinstance(value, Mapping) and not is_placeholder(value):
        return list(islice(value.items(), MAX_PARTS))
    return list(enumerate(value[:MAX_PARTS])) if isinstance(value, list | tuple) else []


def sentence(text: str) -> str:
    """`text` with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


MEANINGS: Mapping[str, str] = tomllib.loads(files(__package__).joinpath("findings.toml").read_text("utf-8"))
"""What each code of a finding means."""
