"""The HTML pages of a report and of a comparison: self-contained files, whose policy allows no other resource."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..attempts import pass_rates
from ..outcomes.comparison import Comparison
from ..texts import (
    cost_text,
    counted,
    duration_text,
    excerpt,
    gate_name,
    gate_sign,
    gate_word,
    json_excerpt,
    moment_text,
    one_line,
    pretty_json,
    printable,
    state_text,
    tokens_text,
)
from .causes import Cause, causes
from .compared import change_line, shown_comparison
from .figures import attempts, models_usage, percentile, tool_figures, turn_seconds
from .focus import all_failures
from .model import OUTCOMES, Report, seconds_between
from .page import page_data
from .timeline import timeline, waterfall
from .tree import shown_tree


def shown(value: Any) -> Any:
    """Texts without control characters, and with visible bidirectional ones; nothing for None."""
    if value is None:
        return ""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def environment(*first: BaseLoader, undefined: type[StrictUndefined] = StrictUndefined) -> Environment:
    """Templates of `first` and of this package, which escape and neutralize every value."""
    made = Environment(
        loader=ChoiceLoader([*first, PackageLoader(__package__ or "", "templates")]),
        autoescape=True,
        undefined=undefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "cost": cost_text,
        "counted": counted,
        "cut": excerpt,
        "duration": duration_text,
        "line": one_line,
        "moment": moment_text,
        "number": "{:,}".format,
        "pretty": pretty_json,
        "state": state_text,
        "tokens": tokens_text,
    }
    return made


_own = cache(environment)


def rendered(template: str, **values: Any) -> str:
    """The HTML of a template, without the line break at its end."""
    return _own().get_template(template).render(**values)


MAX_LINKS = 12
"""Maximum number of links in a list; the number of further ones follows."""
MAX_CAUSES, _FEW_CAUSES = 100, 10
"""Causes that are listed, and those that are shown before the reader asks for the others."""
MAX_TOOLS = 100
MAX_TOLERATED = 3
MAX_TEXT = 600

Targets = Sequence[tuple[str, str]]
"""Links: the address and the text of each."""
Place = Callable[[int | None, int], str]
"""The address of a conversation by its index (None if unknown), or of its turn from 1 (0: the whole conversation)."""


def overview(report: Report) -> str:
    """The header and why the run failed, as HTML. Every text is escaped."""
    took = seconds_between(report.started_at, report.ended_at)
    compared = report.baseline and change_line(report.baseline)
    masthead = rendered("overview.html", part="masthead", report=report, took=took, compared=compared, **_NAMES)
    return f"{masthead}\n{why(report)}"


def why(report: Report, place: Place | None = None, title: str = "Why it failed") -> str:
    """Each cause of failures once, with links to where it happened, as HTML under this title; "" without any. Every
    text is escaped.

    With `place`, they link to where that is; without, to places of the report's own page, in whose folder are its other
    files."""
    to = place or (lambda index, turn: f"#{_anchor(index, turn)}")

    def places(cause: Cause) -> Targets:
        found = []
        for name, turn in cause.places:
            index, conversation = report.by_name.get(name, (None, None))
            is_one_of_several = turn and conversation is not None and len(conversation.turns) > 1
            found.append((to(index, turn), excerpt(name, 60) + (f", turn {turn}" if is_one_of_several else "")))
        return found

    failed = [item for item in report.conversations if report.status(item) == "failed"]
    suites = dict.fromkeys(f"focus/{all_failures(report, item)}.yaml" for item in failed if place is None)
    return rendered(
        "overview.html",
        part="why",
        report=report,
        title=title,
        suites=[(name, name) for name in suites],
        tolerated=list(dict.fromkeys(reason["message"] for reason in report.verdict["tolerated"])),
        causes=causes(report),
        places=places,
        **_NAMES,
    ).rstrip("\n")


def figures(report: Report) -> str:
    """Gates, scores, tools and findings of the run, as HTML. Every text is escaped."""
    findings = Counter((finding["severity"], finding["code"]) for turn in report.turns for finding in turn["findings"])
    repeated, seconds = attempts(report), turn_seconds(report)
    return rendered(
        "overview.html",
        part="figures",
        report=report,
        verdicts=Counter(item.verdict for item in repeated),
        rates=pass_rates(repeated),
        latencies=[percentile(seconds, share) for share in (0.5, 0.95)],
        usage=models_usage(report),
        tools=tool_figures(report),
        findings=findings.most_common(),
        **_NAMES,
    ).rstrip("\n")


_NAMES: Mapping[str, object] = {
    "outcomes": OUTCOMES,
    "outcome_class": lambda report: report.outcome if report.outcome in ("passed", "failed") else "undecided",
    "gate_name": gate_name,
    "gate_sign": gate_sign,
    "gate_word": gate_word,
    "max_links": MAX_LINKS,
    "max_causes": MAX_CAUSES,
    "few_causes": _FEW_CAUSES,
    "max_tools": MAX_TOOLS,
    "max_text": MAX_TEXT,
    "max_tolerated": MAX_TOLERATED,
    "cost_text": cost_text,
    "tokens_text": tokens_text,
}
"""What the template calls, and its limits."""


def _anchor(conversation: int | None, turn: int) -> str:
    if conversation is None:
        return "cases"
    return f"c-{conversation}-{turn}" if turn else f"c-{conversation}"


SCRIPTS = ("elements.js", "calls.js", "timings.js", "conversation.js", "cases.js", "matrix.js", "page.js")
"""In order of dependency."""


def html_report(report: Report) -> str:
    """The whole page. The policy allows its script and style by hash only; all data is escaped or JSON."""
    seen, unseen = _seen(report)
    return standalone_page(
        "report.html",
        f"{OUTCOMES[report.outcome][1]}: {', '.join(dict.fromkeys((report.title, report.run)))}",
        overview(report),
        '"use strict";\n(() => {\n' + "\n".join(map(asset, SCRIPTS)) + "\n})();\n",
        trace_url=report.trace_url,
        agent=report.agent_url,
        seen=seen,
        unseen=unseen,
        report=report,
        figures=Markup(figures(report)),  # noqa: S704  # every text in it is escaped
        listed=sorted(report.conversations, key=lambda one: report.status(one) != "failed")[:MAX_LISTED],
        most_reasons=_MOST_REASONS,
        unlisted=max(0, len(report.conversations) - MAX_LISTED),
        data=Markup(page_data(report)),  # noqa: S704  # JSON that is safe inside a script element
    )


MAX_LISTED, _MOST_REASONS = 1_000, 3
"""Conversations, and reasons of each, that can be read without JavaScript."""


MAX_SEEN_BYTES = 6_000_000
"""Of the HTML of timelines in a report."""


def _seen(report: Report) -> tuple[list[Markup], int]:
    """What was seen of the turns, as HTML: the timeline of each with spans, and whom it asked.

    Failed conversations come first until there is no more room; then the number of turns that are left out.
    """
    found: dict[tuple[int, int], Markup] = {}
    room, left_out = MAX_SEEN_BYTES, 0
    for index, item in sorted(enumerate(report.conversations), key=lambda one: report.status(one[1]) != "failed"):
        for planned in item.turns:
            turn = planned.turn or {}
            tree = (report.trees or {}).get(turn.get("turn_id", ""))
            parts = [("agents that were asked", tree), ("timeline", turn.get("spans"))]
            title = ", ".join([name for name, part in parts if part]).capitalize()
            if not title:
                continue
            number = planned.index + 1
            html = rendered(
                "seen_turn.html",
                place=f"{index}-{number}",
                title=title,
                of=f"{item.label}, turn {number}: {report.status(item)}",
                rows=waterfall(timeline(turn)) if turn.get("spans") else [],
                tree=None if tree is None else shown_tree(tree),
            )
            room -= len(html)
            if room < 0:
                left_out += 1
            else:
                found[index, number] = Markup(html)  # noqa: S704  # a template escaped it
    return [found[place] for place in sorted(found)], left_out


def standalone_page(template: str, title: str, content: str, script: str = "", **values: Any) -> str:
    """A page with this content, which is HTML. Its policy allows the report's style and `script`, and nothing else."""
    style = asset("report.css")
    allowed = ["default-src 'none'", *([f"script-src {_hash(script)}"] if script else []), f"style-src {_hash(style)}"]
    policy = "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])
    ours = {"policy": policy, "style": style, "content": content, "script": script}
    trusted = {name: Markup(text) for name, text in ours.items()}  # noqa: S704  # ours, or HTML by the contract above
    return rendered(template, title=title, **trusted, **values)


def asset(name: str) -> str:
    """The text of a file in assets/."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def _hash(text: str) -> str:
    """The source expression of a content security policy that allows `text`."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


MARKS = {
    "same": ("=", "unchanged"),
    "moved": ("↕", "moved"),
    "changed": ("≠", "different arguments"),
    "removed": ("−", "only before"),
    "added": ("+", "only after"),
}
MAX_VALUE = 2_000
"""Maximum length of an argument, in characters."""


def comparison_html(comparison: Comparison) -> str:
    """The whole page. Its policy allows its own style and nothing else; all texts are escaped."""
    return standalone_page("page.html", shown_comparison(comparison)["sentence"], comparison_body(comparison))


def comparison_body(comparison: Comparison) -> str:
    """The content of the page, as HTML. Every text is escaped."""
    return rendered(
        "comparison_body.html",
        comparison=comparison,
        shown=shown_comparison(comparison),
        marks=MARKS,
        value_text=lambda value: json_excerpt(value, MAX_VALUE),
    ).rstrip("\n")
