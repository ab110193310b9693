"""The static part of the HTML report: verdict, scores with their distribution, distinct errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from ..grouping import grouped
from .baseline import baseline_tile, change_title, metric_change
from .causes import Cause, causes
from .figures import models_usage, percentile, repeated_cases, tool_figures, turn_seconds
from .focus import all_failures
from .model import Report, seconds_between, verdict_sign
from .wording import (
    cost_text,
    counted,
    cut,
    duration_text,
    gate_name,
    gate_sign,
    gate_word,
    printable,
    tokens_text,
)

BINS = 10
MAX_OCCURRENCES = 12
"""Maximum number of linked occurrences of an error; the number of further ones follows."""
MAX_ERRORS = 100
MAX_TOOLS = 100
MAX_TOLERATED = 3
MAX_TEXT = 600

Child = ET.Element | str | None


@dataclass(frozen=True, slots=True)
class SectionLinks:
    """Where the sections link to; without arguments, to places of the report's own page.

    `cause`: where the turns with a cause are listed; None: nowhere. `place`: a conversation by its index (None if
    unknown), or its turn from 1 (0: the whole conversation).
    """

    cause: Callable[[Cause], str | None] = lambda cause: None
    place: Callable[[int | None, int], str] = lambda index, turn: f"#{_anchor(index, turn)}"
    focus: bool = False
    """Whether the other files of the report are in the folder of the page."""


_IN_PAGE = SectionLinks(focus=True)


def overview(report: Report) -> str:
    """The header and the first sections, as HTML. Every text is escaped."""
    return f"{html_text([_masthead(report)])}\n{sections(report)}"


def sections(report: Report, links: SectionLinks = _IN_PAGE, why_title: str = "Why it failed") -> str:
    """The sections below the header, as HTML. Every text is escaped. `why_title` heads the reasons against the run."""
    why, errors = _why(report, links, why_title), _errors(report, links)
    found = [_suites(report), why, errors, _gates(report), _scores(report), _tools(report), _findings(report)]
    return html_text([_tiles(report, links), *found])


def html_text(parts: Iterable[ET.Element | None]) -> str:
    """The elements as HTML, a line break between them; None is omitted."""
    return "\n".join(ET.tostring(part, encoding="unicode", method="html") for part in parts if part is not None)


def element(tag: str, *children: Child, **attributes: str) -> ET.Element:
    """An element with text and elements inside; None is omitted.

    `tag` may name classes (`p.verdict`). `_` in the name of an attribute stands for `-`.
    """
    tag, _, classes = tag.partition(".")
    if classes:
        attributes = {"class": classes.replace(".", " "), **attributes}
    made = ET.Element(tag, {key.replace("_", "-"): printable(value) for key, value in attributes.items()})
    last: ET.Element | None = None
    for child in children:
        if isinstance(child, str):
            if last is None:
                made.text = (made.text or "") + printable(child)
            else:
                last.tail = (last.tail or "") + printable(child)
        elif child is not None:
            made.append(child)
            last = child
    return made


def table(kind: str, head: Iterable[str], rows: Iterable[ET.Element]) -> ET.Element:
    """A table of the classes `kind`, with a row of headings."""
    headings = element("tr", *(element("th", text, scope="col") for text in head))
    return element(f"table.{kind}", element("thead", headings), element("tbody", *rows))


def _masthead(report: Report) -> ET.Element:
    facts = [
        ("run", report.run),
        ("agent", ", ".join(report.agents) or "–"),
        ("started", _moment(report.started_at)),
        ("took", duration_text(seconds_between(report.started_at, report.ended_at))),
        ("conversations", f"{len(report.conversations):,}"),
        ("turns", f"{len(report.turns):,}"),
        ("tool calls", f"{report.tool_call_count:,}"),
        *report.costs.items(),
    ]
    word, sign = ("Passed", "✓") if report.passed else ("Failed", "✕")
    verdict = element(f"p.verdict.{word.lower()}", element("span.sign", sign, aria_hidden="true"), word)
    listed = (element("div", element("dt", name), element("dd", value)) for name, value in facts)
    headline = element("div.headline", element("h1", report.title), verdict)
    unseen = element("p.chip.noted", report.visibility_text) if report.visibility_text else None
    return element("header.masthead", headline, unseen, element("dl.facts", *listed))


def _tiles(report: Report, links: SectionLinks) -> ET.Element:
    """The pass rate of the conversations and its change, the latency of the turns and, where traces state them, the
    tokens."""
    counts, noted = report.counts, report.noted_count
    passed, judged = counts["passed"], counts["passed"] + counts["failed"]
    left_out = [(noted, "below threshold"), (counts["unscored"], "not scored"), (counts["spoilt"], "spoilt")]
    aside = [f"{passed / judged:.0%}"] if judged else []
    aside += [f"{count:,} {words}" for count, words in left_out if count]
    seconds = turn_seconds(report)
    once, always, repeated = repeated_cases(report)
    tiles = [
        ("conversations passed", report.share_text, ", ".join(aside)),
        ("turn latency, median", duration_text(percentile(seconds, 0.5)), counted(len(seconds), "turn")),
        ("turn latency, 95th percentile", duration_text(percentile(seconds, 0.95)), ""),
    ]
    if repeated:
        flaky = f", {once - always:,} flaky" if once > always else ""
        tiles.insert(
            1, ("repeated cases that always passed", f"{always:,} of {repeated:,}", f"{once:,} at least once{flaky}")
        )
    usage, stated = models_usage(report)
    if usage:
        of_turns = f"{stated:,} of {counted(len(report.turns), 'turn')}{cost_text(usage)}"
        tiles.append(("tokens of models, input + output", tokens_text(usage), of_turns))
    listed = [_tile(*tile) for tile in tiles]
    if report.baseline:
        page = element("a", "comparison.html", href="comparison.html") if links.focus else None
        listed.insert(1, _tile(*baseline_tile(report.baseline), page))
    return element("dl.tiles", *listed, id="tiles")


def _tile(name: str, value: str, more: str, link: ET.Element | None = None) -> ET.Element:
    aside = element("span.quiet", f" {more}", "; see " if link is not None else None, link)
    return element("div", element("dt", name), element("dd", element("b", value), aside))


def _suites(report: Report) -> ET.Element | None:
    """The verdict of each suite of several."""
    rows = [
        element(
            "tr",
            element("td", element(f"span.sign.{'passed' if part.passed else 'failed'}", verdict_sign(part))),
            element("th", part.title, scope="row"),
            element("td.number", part.share_text),
        )
        for part in report.parts
    ]
    head = ("", "suite", "conversations passed")
    return _section("suites", "Suites", table("gates", head, rows)) if rows else None


def _tools(report: Report) -> ET.Element | None:
    tools = tool_figures(report)
    if not tools:
        return None
    timed = any(tool.p95 is not None for tool in tools)
    head = ["tool", "calls", "errors", "mismatches", *(["95th percentile"] if timed else [])]
    rows = []
    for tool in tools[:MAX_TOOLS]:
        cells = [element("th", tool.name, scope="row"), element("td.number", f"{tool.calls:,}", data_head=head[1])]
        for name, count in ((head[2], tool.errors), (head[3], tool.mismatches)):
            cells.append(element(f"td.number{'.bad' if count else ''}", f"{count:,}", data_head=name))
        cells += [element("td.number", duration_text(tool.p95), data_head=head[4])] if timed else []
        rows.append(element("tr", *cells))
    more = len(tools) - MAX_TOOLS
    note = element("p.note", f"… and {more:,} more.") if more > 0 else None
    return _section("tools", "Tools", element("div.scroll", table("toolstats", head, rows), tabindex="0"), note)


def _moment(time: str | None) -> str:
    return "–" if time is None else time.partition(".")[0].replace("T", " ") + " UTC"


def _section(name: str, title: str, *children: Child) -> ET.Element:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def _why(report: Report, links: SectionLinks, why_title: str) -> ET.Element | None:
    tolerated = report.verdict["tolerated"]
    if report.passed and not tolerated:
        return None
    items = [element("li", cut(cause.sentence, MAX_TEXT)) for cause in causes(report) if not cause.places]
    by_status = grouped((report.status(item), (index, item)) for index, item in enumerate(report.conversations))
    failed, spoilt = by_status.get("failed", []), by_status.get("spoilt", [])
    of_all = f"{len(failed):,} of {counted(len(report.conversations), 'conversation')} failed: "
    at_fault = f"The simulated user was at fault in {counted(len(spoilt), 'conversation')}: "
    for summary, found in ((of_all, failed), (at_fault, spoilt)):
        if found:
            items.append(element("li", summary, *_links((links.place(index, 0), item.label) for index, item in found)))
    if failed and links.focus:
        names = dict.fromkeys(all_failures(report, item.case_id) for _, item in failed)
        files = _links((f"focus/{name}.yaml", f"focus/{name}.yaml") for name in names)
        items.append(element("li", "In the folder of this report, suites of the failed cases: ", *files))
    if tolerated:
        messages = list(dict.fromkeys(reason["message"] for reason in tolerated))
        more = f" and {len(messages) - MAX_TOLERATED:,} more" if len(messages) > MAX_TOLERATED else ""
        shown = "; ".join(cut(message, MAX_TEXT) for message in messages[:MAX_TOLERATED])
        items.append(element("li", f"{counted(len(tolerated), 'problem')} tolerated: {shown}{more}"))
    title = "Tolerated problems" if report.passed else why_title
    return _section("why", title, element("ul.reasons.tolerated" if report.passed else "ul.reasons", *items))


def _links(targets: Iterable[tuple[str, str]]) -> list[Child]:
    """Links separated by commas, and the number of further ones."""
    shown: list[Child] = []
    more = 0
    for target, label in targets:
        if len(shown) >= 2 * MAX_OCCURRENCES:
            more += 1
            continue
        shown += [", " if shown else "", element("a", cut(label, 80), href=target)]
    return [*shown, f" and {more:,} more" if more else None]


def _gates(report: Report) -> ET.Element | None:
    if not report.gates:
        return None
    rows = []
    for check in report.gates:
        kind = {True: "passed", False: "failed", None: "skipped"}[check["passed"]]
        word = element("span.unseen", f" {gate_word(check)}")
        sign = element("td", element(f"span.sign.{kind}", gate_sign(check), aria_hidden="true"), word)
        actual = element(f"td.number{'.bad' if kind == 'failed' else ''}", check["text"])
        rows.append(element("tr", sign, element("th", gate_name(check), scope="row"), actual))
    return _section("gates", "Gates", table("gates", ("", "gate", "actual"), rows))


def _scores(report: Report) -> ET.Element | None:
    metrics = report.verdict["metrics"]
    if not metrics:
        return None
    scores = grouped((item.evaluator, (item.score, item.scale)) for item in report.results if item.score is not None)
    counts = ("passed", "failed", "skipped", "errored")
    compared = [report.baseline] if report.baseline else []
    head = ["metric", "mean", "distribution", *(change_title(item) for item in compared), *counts]
    rows = []
    for metric in metrics:
        name = metric["metric"]
        cells = [
            element("th", name, scope="row"),
            element("td.number", report.mean_text(metric)),
            element("td", _distribution(scores.get(name, []))),
            *(element("td.number", metric_change(item, name), data_head=change_title(item)) for item in compared),
        ]
        for key in counts:
            kind = ".bad" if key in ("failed", "errored") and metric[key] else ""
            cells.append(element(f"td.number{kind}", f"{metric[key]:,}", data_head=key))
        rows.append(element("tr", *cells))
    return _section("scores", "Scores", element("div.scroll", table("scores", head, rows), tabindex="0"))


def _distribution(scores: list[tuple[float, tuple[float, float]]]) -> ET.Element | None:
    """The number of scores in each tenth of the scale, as a small chart with an equivalent title."""
    if not scores:
        return None
    low, high = scores[0][1]
    width = (high - low) or 1.0
    bins = Counter(min(BINS - 1, max(0, int((score - low) / width * BINS))) for score, _ in scores)
    most = max(bins.values())
    bars = [element("rect.floor", x="0", y="27", width="119", height="1")]
    for index, count in sorted(bins.items()):
        height = max(2.0, 26 * count / most)
        place = {"x": str(index * 12), "y": f"{27 - height:.1f}", "width": "11", "height": f"{height:.1f}"}
        bars.append(element("rect.bar", **place))
    label = ", ".join(
        f"{count:,} from {low + index * width / BINS:.2f} to {low + (index + 1) * width / BINS:.2f}"
        for index, count in sorted(bins.items())
    )
    return element("svg.distribution", *bars, viewBox="0 0 119 28", role="img", aria_label=label)


def _errors(report: Report, links: SectionLinks) -> ET.Element | None:
    errors = [cause for cause in causes(report) if cause.places]
    if not errors:
        return None
    index = {name: place for name, (place, _) in report.by_name.items()}
    items = [_error(error, index, links) for error in errors[:MAX_ERRORS]]
    more = len(errors) - MAX_ERRORS
    note = element("p", f"… and {more:,} more, in the JSON report.") if more > 0 else None
    return _section("errors", counted(len(errors), "distinct error"), element("ol.errors", *items), note)


def _error(error: Cause, index: Mapping[str, int], links: SectionLinks) -> ET.Element:
    times, address = counted(len(error.places), "time"), links.cause(error)
    places = _links(
        (links.place(index.get(name), turn), cut(name, 60) + (f", turn {turn}" if turn else ""))
        for name, turn in error.places
    )
    head = element(
        "p.error-head",
        element("span.label", ", ".join(error.labels) or "turn"),
        element(f"span.severity.{error.severity}", error.severity) if error.severity else None,
        element("span.times", times) if address is None else element("a.times", times, href=address),
        element("span.chip.noted", error.note) if error.note else None,
    )
    said = element("p.said", cut(error.text, MAX_TEXT), dir="auto")
    return element("li", head, element("div", said, element("p.where", *places)))


def _anchor(conversation: int | None, turn: int) -> str:
    if conversation is None:
        return "cases"
    return f"c-{conversation}-{turn}" if turn else f"c-{conversation}"


def _findings(report: Report) -> ET.Element | None:
    found = Counter((finding["severity"], finding["code"]) for turn in report.turns for finding in turn["findings"])
    if not found:
        return None
    items = [
        element(
            "li",
            element(f"span.severity.{severity}", severity),
            element("span.label", code),
            element("span.times", counted(count, "time")),
        )
        for (severity, code), count in found.most_common()
    ]
    return _section("findings", "Findings", element("ul.findings", *items))
