"""The static part of the HTML report: verdict, scores with their distribution, distinct errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

from ..behavior_failures import SEVERITY
from ..gates import Gate
from .model import Report, seconds_between
from .wording import counted, cut, duration_text, printable, score_text, usage_text

BINS = 10
MAX_OCCURRENCES = 12
"""Maximum number of linked occurrences of an error; the number of further ones follows."""
MAX_ERRORS = 100
MAX_TEXT = 600

Child = ET.Element | str | None


def overview(report: Report) -> str:
    """The header and the first sections, as HTML. Every text is escaped."""
    sections = [_why(report), _scores(report), _errors(report), _findings(report)]
    parts = [_masthead(report), *(section for section in sections if section is not None)]
    return "\n".join(ET.tostring(part, encoding="unicode", method="html") for part in parts)


def element(tag: str, attributes: Mapping[str, str] | None = None, *children: Child) -> ET.Element:
    """An element with text and elements inside; None is omitted."""
    made = ET.Element(tag, {key: printable(value) for key, value in (attributes or {}).items()})
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


def _masthead(report: Report) -> ET.Element:
    facts = [
        ("run", report.run),
        ("agent", ", ".join(report.agents) or "–"),
        ("started", _moment(report.started_at)),
        ("took", duration_text(seconds_between(report.started_at, report.ended_at))),
        ("conversations", f"{len(report.conversations):,}"),
        ("turns", f"{len(report.turns):,}"),
        ("tool calls", f"{report.tool_call_count:,}"),
    ]
    if usage := usage_text(report.usage):
        facts.append(("judge", usage))
    word, sign, kind = ("Passed", "✓", "passed") if report.passed else ("Failed", "✕", "failed")
    return element(
        "header",
        {"class": "masthead"},
        element(
            "div",
            {"class": "headline"},
            element("h1", {}, report.title),
            element(
                "p", {"class": f"verdict {kind}"}, element("span", {"class": "sign", "aria-hidden": "true"}, sign), word
            ),
        ),
        element(
            "dl",
            {"class": "facts"},
            *(element("div", {}, element("dt", {}, name), element("dd", {}, value)) for name, value in facts),
        ),
    )


def _moment(time: str | None) -> str:
    return "–" if time is None else time.partition(".")[0].replace("T", " ") + " UTC"


def _section(name: str, title: str, *children: Child) -> ET.Element:
    heading = element("h2", {"id": f"{name}-title"}, title)
    return element("section", {"id": name, "aria-labelledby": f"{name}-title"}, heading, *children)


def _why(report: Report) -> ET.Element | None:
    tolerated = report.verdict["tolerated"]
    if report.passed and not tolerated:
        return None
    items = [element("li", {}, cut(reason["message"], MAX_TEXT)) for reason in report.run_reasons]
    failed = [(index, item.label) for index, item in enumerate(report.conversations) if report.status(item) == "failed"]
    if failed:
        summary = f"{len(failed):,} of {counted(len(report.conversations), 'conversation')} did not pass: "
        items.append(element("li", {}, summary, *_links((f"c-{index}", label) for index, label in failed)))
    if tolerated:
        items.append(element("li", {}, f"The suite tolerates {counted(len(tolerated), 'problem')}."))
    return _section(
        "why", "Tolerated problems" if report.passed else "Why it failed", element("ul", {"class": "reasons"}, *items)
    )


def _links(targets: Iterable[tuple[str, str]]) -> list[Child]:
    """Links separated by commas, and the number of further ones."""
    shown: list[Child] = []
    more = 0
    for target, label in targets:
        if len(shown) >= 2 * MAX_OCCURRENCES:
            more += 1
            continue
        shown += [", " if shown else "", element("a", {"href": f"#{target}"}, cut(label, 80))]
    return [*shown, f" and {more:,} more" if more else None]


def _scores(report: Report) -> ET.Element | None:
    metrics = report.verdict["metrics"]
    if not metrics:
        return None
    scores = _scores_by_metric(report)
    head = ("metric", "mean", "distribution", "passed", "failed", "skipped", "errored")
    gates = report.suite.gates if report.suite else {}
    rows = []
    for metric in metrics:
        name = metric["metric"]
        cells = [
            element("th", {"scope": "row"}, name, _gate_label(gates.get(name))),
            element("td", {"class": "number"}, score_text(metric["mean"])),
            element("td", {}, _distribution(scores.get(name, []))),
        ]
        for key in head[3:]:
            kind = " bad" if key in ("failed", "errored") and metric[key] else ""
            cells.append(element("td", {"class": f"number{kind}", "data-head": key}, f"{metric[key]:,}"))
        rows.append(element("tr", {}, *cells))
    columns = [element("th", {"scope": "col"}, name) for name in head]
    table = element(
        "table",
        {"class": "scores"},
        element("thead", {}, element("tr", {}, *columns)),
        element("tbody", {}, *rows),
    )
    return _section("scores", "Scores", element("div", {"class": "scroll", "tabindex": "0"}, table))


def _gate_label(gate: Gate | None) -> ET.Element | None:
    if gate is None:
        return None
    return element("span", {"class": "gate"}, f"gate: {'; '.join(gate.labels)}")


def _scores_by_metric(report: Report) -> dict[str, list[tuple[float, tuple[float, float]]]]:
    scores: dict[str, list[tuple[float, tuple[float, float]]]] = {}
    for conversation in report.conversations:
        results = [result for turn in conversation.turns for result in turn.results]
        for result in (*results, *conversation.results):
            if result.score is not None:
                scores.setdefault(result.evaluator, []).append((result.score, result.scale))
    return scores


def _distribution(scores: list[tuple[float, tuple[float, float]]]) -> ET.Element | None:
    """The number of scores in each tenth of the scale, as a small chart with an equivalent title."""
    if not scores:
        return None
    low, high = scores[0][1]
    width = (high - low) or 1.0
    bins = Counter(min(BINS - 1, max(0, int((score - low) / width * BINS))) for score, _ in scores)
    most = max(bins.values())
    bars = [element("rect", {"class": "floor", "x": "0", "y": "27", "width": "119", "height": "1"})]
    for index in range(BINS):
        if bins[index]:
            height = max(2.0, 26 * bins[index] / most)
            bars.append(
                element(
                    "rect",
                    {
                        "class": "bar",
                        "x": str(index * 12),
                        "y": f"{27 - height:.1f}",
                        "width": "11",
                        "height": f"{height:.1f}",
                    },
                )
            )
    label = ", ".join(
        f"{bins[index]:,} from {low + index * width / BINS:g} to {low + (index + 1) * width / BINS:g}"
        for index in range(BINS)
        if bins[index]
    )
    return element("svg", {"class": "distribution", "viewBox": "0 0 119 28", "role": "img", "aria-label": label}, *bars)


def _errors(report: Report) -> ET.Element | None:
    errors = report.unique_errors
    if not errors:
        return None
    index = {item.label: number for number, item in enumerate(report.conversations)}
    index |= {item.conversation_id: index[item.label] for item in report.conversations if item.conversation_id}
    items = [_error(error, index) for error in errors[:MAX_ERRORS]]
    more = len(errors) - MAX_ERRORS
    return _section(
        "errors",
        f"{counted(len(errors), 'distinct error')}",
        element("ol", {"class": "errors"}, *items),
        element("p", {}, f"… and {more:,} more, in the JSON report.") if more > 0 else None,
    )


def _error(error: Mapping[str, Any], index: Mapping[str, int]) -> ET.Element:
    occurrences = error["occurrences"]
    severity = SEVERITY.get(error["label"])  # only behaviour failures have one
    links = _links(
        (_target(index.get(item["conversation"]), item["turn"]), _place(item["conversation"], item["turn"]))
        for item in occurrences
    )
    return element(
        "li",
        {},
        element(
            "p",
            {"class": "error-head"},
            element("span", {"class": "label"}, error["label"]),
            element("span", {"class": f"severity {severity}"}, severity) if severity else None,
            element("span", {"class": "times"}, counted(len(occurrences), "time")),
        ),
        element(
            "div",
            {},
            element("p", {"class": "said", "dir": "auto"}, cut(error["description"], MAX_TEXT)),
            element("p", {"class": "where"}, *links),
        ),
    )


def _target(conversation: int | None, turn: int) -> str:
    if conversation is None:
        return "cases"
    return f"c-{conversation}-{turn}" if turn else f"c-{conversation}"


def _place(conversation: str, turn: int) -> str:
    return f"{cut(conversation, 60)}, turn {turn}" if turn else cut(conversation, 60)


def _findings(report: Report) -> ET.Element | None:
    found = Counter((finding["severity"], finding["code"]) for turn in report.turns for finding in turn["findings"])
    if not found:
        return None
    items = [
        element(
            "li",
            {},
            element("span", {"class": f"severity {severity}"}, severity),
            element("span", {"class": "label"}, code),
            element("span", {"class": "times"}, counted(count, "time")),
        )
        for (severity, code), count in found.most_common()
    ]
    return _section("findings", "Findings", element("ul", {"class": "findings"}, *items))
