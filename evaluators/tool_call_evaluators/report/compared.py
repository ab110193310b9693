"""A comparison of two runs as text, Markdown and JSON, and in the report of one of the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from a2a_tool_capture.models import ToolCall

from ..matching.arguments import Difference
from ..matching.explain import CallChange
from ..runs.comparison import CaseChange, Comparison, ScoreChange, TurnChange
from ..runs.outcomes import excluded_text
from ..runs.regression import EVIDENCE, FALSE_ALARMS, LEAST_CASES, Sensitivity
from ..texts import call_text, counted, escaped, json_excerpt, printable, report_json, score_text

MAX_CASES = 100
"""Maximum number of cases listed one by one; the number of further cases follows."""

Tone: TypeAlias = Literal["worse", "better", "changed", "quiet"]
"""The meaning of a piece of the text, which decides its colour."""
Paint: TypeAlias = Callable[[str, Tone], str]
_Line: TypeAlias = tuple[str, Tone | None]

STATUSES: dict[str, _Line] = {
    "worse": ("regressed", "worse"),
    "gone": ("missing", "worse"),
    "newly_failing": ("newly failing", "changed"),
    "unscored": ("not scored", "changed"),
    "changed": ("changed", "changed"),
    "fixed": ("fixed", "better"),
    "new": ("new", "quiet"),
    "same": ("unchanged", None),
}
"""The word and the tone of each status of a case, in the order of the text."""

_NEWLY_FAILING = "Newly failing cases alone are no regression: an unchanged agent may fail a case by chance."
_DETERMINISTIC = "The agent did the same in all earlier runs: what changed is not chance."
_MARKS: dict[Tone, str] = {"worse": "❌", "better": "✅", "changed": "➖", "quiet": "➖"}
_INCOMPARABLE = "The runs share no metric that was measured the same way: run both again with the same evaluators."
_NO_COMMON_CASE = "They have no case in common: is the baseline one of another suite, or were all cases renamed?"
_NOTHING_SCORED = "No case has scored attempts in both: what was excluded shows nothing about the agent."
SCORE_HEAD = ("mean of cases", "before", "after", "change", "95 % interval", "p")


def comparison_json(comparison: Comparison) -> str:
    """`Comparison.to_dict` as JSON text."""
    return report_json(comparison.to_dict()) + "\n"


def comparison_text(comparison: Comparison, paint: Paint = lambda text, tone: text) -> str:
    """For a terminal: the counts, the scores as a table, then each case that changed, worst first.

    `paint(piece, tone)` returns a piece of a line with colour codes.
    """

    def painted(text: str, tone: Tone | None) -> str:
        text = printable(text)
        return text if tone is None else paint(text, tone)

    lines = [painted(headline(comparison), answer(comparison)[1])]
    lines += [painted(line, tone) for line, tone in notices(comparison)] + [""]
    if scores := score_changes(comparison):
        rows: list[tuple[str, ...]] = [SCORE_HEAD, *map(score_cells, scores)]
        tones: list[Tone | None] = ["quiet", *("worse" if score.dropped else None for score in scores)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(SCORE_HEAD))]
        for row, tone in zip(rows, tones, strict=True):
            numbers = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append(painted("  ".join([row[0].ljust(widths[0]), *numbers]).rstrip(), tone))
        lines.append("")
    for case in changed_cases(comparison)[:MAX_CASES]:
        word, tone = STATUSES[case.status]
        lines.append(f"{painted(f'{word}: {case.case}', tone)} ({rate(case)})")
        lines += [f"  {painted(line, tone)}" for line, tone in case_lines(case)]
    return "\n".join([*lines, *more_cases(comparison)]).rstrip() + "\n"


def comparison_markdown(comparison: Comparison) -> str:
    """For a CI job's page. Texts of the agent are escaped."""
    parts = [f"## {_MARKS[answer(comparison)[1]]} {escaped(headline(comparison))}"]
    parts += [escaped(line) for line, _ in notices(comparison)]
    if scores := score_changes(comparison):
        head = [f"| {' | '.join(SCORE_HEAD)} |", f"|{' --- |' * len(SCORE_HEAD)}"]
        rows = [f"| {' | '.join(escaped(cell) for cell in score_cells(score))} |" for score in scores]
        parts.append("\n".join([*head, *rows]))
    for case in changed_cases(comparison)[:MAX_CASES]:
        lines = "\n".join(f"- {escaped(line)}" for line, _ in case_lines(case))
        parts.append(f"**{STATUSES[case.status][0]}: {escaped(case.case)}** ({rate(case)})\n\n{lines}".rstrip())
    return "\n\n".join([*parts, *more_cases(comparison)]) + "\n"


def count_texts(comparison: Comparison) -> str:
    counts = comparison.counts
    parts = [f"{counts[status]:,} {word}" for status, (word, _) in STATUSES.items() if status in counts]
    return ", ".join(parts) or "no cases"


def answer(comparison: Comparison) -> tuple[str, Tone]:
    """The decision in a few words, and its tone."""
    decision = comparison.decision
    if decision.answer == "worse":
        return "worse", "worse"
    if not comparison.comparable:
        return "cannot be compared", "worse"
    if decision.answer == "undecided":
        return "not enough runs to decide", "changed"
    return decision.answer, "better"


def headline(comparison: Comparison) -> str:
    return f"{comparison.before} → {comparison.after}: {answer(comparison)[0]} ({count_texts(comparison)})"


def notices(comparison: Comparison) -> list[_Line]:
    """The metrics that are not compared, and how large a drop the comparison detects."""
    lines: list[_Line] = [(f"not compared: {item.metric}: {item.reason}", "changed") for item in comparison.not_judged]
    lines += [(line, "quiet") for line in _baseline_lines(comparison)]
    for name, excluded in zip((comparison.before, comparison.after), comparison.exclusions, strict=True):
        if text := excluded_text(excluded):
            lines.append((text.replace("excluded", f"excluded in {name}", 1), "changed"))
    if not comparison.comparable:
        lines.append((_incomparable(comparison), "worse"))
    if dropped := [score.metric for score in score_changes(comparison) if score.dropped]:
        lines.append((f"dropped significantly over all cases: {', '.join(dropped)}", "worse"))
    decision = comparison.decision
    if decision.is_deterministic:
        lines.append((_DETERMINISTIC, None))
    elif "newly_failing" in comparison.counts and decision.answer != "worse":
        lines.append((_NEWLY_FAILING, None))
    if comparison.comparable and decision.repetitions is not None:
        lines.append((f"To decide, run each case {decision.repetitions} times in both runs (`repeat`).", "changed"))
    if comparison.sensitivity.cases and not decision.is_deterministic:
        tone: Tone = "quiet" if _detects_any(comparison.sensitivity) else "changed"
        lines += [(line, tone) for line in _sensitivity_lines(comparison.sensitivity)]
    return lines


def _baseline_lines(comparison: Comparison) -> list[str]:
    if (baseline := comparison.baseline) is None:
        return []
    older = f"; {counted(baseline.older, 'older run')} not" if baseline.older else ""
    lines = [f"Compared with {counted(len(baseline.runs), 'run')} of version {baseline.version}{older}."]
    if new := comparison.counts.get("new"):
        lines.append(
            f"{counted(new, 'case')} with fewer than {EVIDENCE} scored attempts in these runs: shown, and not decisive."
        )
    return lines


def _incomparable(comparison: Comparison) -> str:
    statuses = comparison.counts.keys()
    if statuses <= {"gone", "new"}:
        return _NO_COMMON_CASE
    return _NOTHING_SCORED if statuses <= {"gone", "new", "unscored"} else _INCOMPARABLE


def _detects_any(sensitivity: Sensitivity) -> bool:
    return sensitivity.detected_rate is not None or sensitivity.single_case is not None


def _sensitivity_lines(sensitivity: Sensitivity) -> list[str]:
    each = "1 conversation" if sensitivity.repetitions == 1 else f"{sensitivity.repetitions:.3g} conversations"
    where = "both runs" if sensitivity.runs == 1 else f"the later run, and {sensitivity.runs:.3g} earlier runs of each"
    each = f"{counted(sensitivity.cases, 'case')}, {each} of each in {where}"
    lines = [f"Based on {each}; an unchanged agent counts as regressed in at most {FALSE_ALARMS:.0%} of comparisons."]
    if sensitivity.pass_rate and sensitivity.detected_rate is not None:
        drop = f"from {sensitivity.pass_rate:.0%} to about {sensitivity.detected_rate:.0%}"
        lines.append(
            f"A drop of the pass rate {drop} is detected in 4 of 5 comparisons; smaller drops are mostly missed."
        )
    elif sensitivity.cases < LEAST_CASES:
        lines.append(f"Too few cases to distinguish a drop from chance: at least {LEAST_CASES} are needed.")
    else:
        lines.append("No drop of the pass rate is detected in 4 of 5 comparisons: add cases or repetitions.")
    if sensitivity.single_case is not None:
        passes, total = sensitivity.single_case
        lines.append(f"A case that always passed counts as regressed where {passes} of {total} pass now.")
    if sensitivity.asked is not None:
        lines.append(_asked_line(sensitivity.asked, sensitivity))
    if not _detects_any(sensitivity):
        lines.append("This comparison cannot distinguish a regression from chance.")
    return lines


def _asked_line(asked: float, sensitivity: Sensitivity) -> str:
    drop, needed = f"a drop of the pass rate by {asked * 100:.3g} points", sensitivity.asked_repetitions
    if needed is None:
        return f"No reasonable number of attempts shows {drop} in {counted(sensitivity.cases, 'case')}: add cases."
    if needed <= sensitivity.repetitions:
        return f"These attempts are enough to detect {drop} in 4 of 5 comparisons."
    return f"To detect {drop} in 4 of 5 comparisons, attempt each case {needed} times in both runs (`repeat`)."


def score_changes(comparison: Comparison) -> tuple[ScoreChange, ...]:
    return (comparison.pass_rate, *comparison.scores) if comparison.sensitivity.cases else comparison.scores


def changed_cases(comparison: Comparison) -> list[CaseChange]:
    cases = [case for case in comparison.cases if case.status != "same"]
    return sorted(cases, key=lambda case: list(STATUSES).index(case.status))


def more_cases(comparison: Comparison) -> list[str]:
    more = len(changed_cases(comparison)) - MAX_CASES
    return [f"… and {counted(more, 'more case')}."] if more > 0 else []


def rate(case: CaseChange) -> str:
    sides = [
        f"{passed} of {total} passed" if total else "not scored" if excluded else "missing"
        for (passed, total), excluded in zip(case.passed, case.excluded, strict=True)
    ]
    return f"{sides[0]}, now {sides[1]}"


def case_lines(case: CaseChange, *, calls: bool = True) -> list[_Line]:
    """What changed in a case; without `calls`, no differences of calls."""
    lines: list[_Line] = [(f"now failing: {', '.join(case.failures)}", "worse")] if case.failures else []
    lines += [(f"now passing: {', '.join(case.fixes)}", "better")] if case.fixes else []
    for turn in case.turns:
        for change in turn.changes if calls else ():
            lines += [(f"turn {turn.turn}: {line}", tone) for line, tone in _change_lines(change, turn)]
        lines += [(line, "quiet") for line in _shares(turn)]
    lines += [(_score_line(score), "worse" if score.dropped else None) for score in case.scores]
    return lines


def _change_lines(change: CallChange, turn: TurnChange) -> list[_Line]:
    if change.left is None and change.right is not None:
        return [(f"+ {_call(turn.after[change.right])}", "better")]
    if change.right is None and change.left is not None:
        return [(f"− {_call(turn.before[change.left])}", "worse")]
    call = turn.before[change.left or 0]
    if change.kind == "moved":
        places = f"call {(change.left or 0) + 1} before, call {(change.right or 0) + 1} after"
        return [(f"↕ {_call(call)}: {places}", "changed")]
    return [(f"≠ {call.name}: {_difference(difference)}", "changed") for difference in change.differences]


def _difference(difference: Difference) -> str:
    where = difference.path or "arguments"
    expected, actual = json_excerpt(difference.expected), json_excerpt(difference.actual)
    sentences = {
        "missing": f"{where} was removed (was {expected})",
        "unexpected": f"{where} is new ({actual})",
        "unknown": f"{where} are unknown now",
    }
    return sentences.get(difference.problem, f"{where}: {expected} → {actual}")


def _call(call: ToolCall) -> str:
    return call_text({"name": call.name, "arguments": call.arguments})


def _shares(turn: TurnChange) -> list[str]:
    """A note where some repetitions made other calls than those compared."""
    if all(made == total for made, total in turn.shares):
        return []
    (made, total), (made_now, total_now) = turn.shares
    shares = f"made by {made} of {total}, now by {made_now} of {total_now}"
    return [f"turn {turn.turn}: these are the most frequent calls, {shares}"]


def _score_line(score: ScoreChange) -> str:
    metric, before, after, _, interval, p_value = score_cells(score)
    text = f"{metric}: {before} → {after}"
    text += f", 95 % interval {interval}" if interval != "–" else ""
    text += f", p = {p_value}" if p_value != "–" else ""
    return text + (", significant" if score.dropped else "")


def score_cells(score: ScoreChange) -> tuple[str, ...]:
    return (
        score.metric,
        score_text(score.before),
        score_text(score.after),
        "–" if score.delta is None else f"{score.delta:+.2f}",
        "–" if score.interval is None else "{:+.2f} to {:+.2f}".format(*score.interval),
        "–" if score.p_value is None else f"{score.p_value:.2g}",
    )


def baseline_tile(comparison: Comparison) -> tuple[str, str, str]:
    """The title, the change of the pass rate over the cases of both runs, and what changed."""
    rate = comparison.pass_rate
    if not comparison.comparable:
        return change_title(comparison), "–", "cannot be compared: they share no metric"
    more = f"pass rate {_values(rate)}; {count_texts(comparison)}"
    return change_title(comparison), change_text(rate), more


def change_line(comparison: Comparison) -> str:
    """`monday: not enough runs to decide (1 newly failing, 2 unchanged)`, for the end of a run."""
    return f"{comparison.before}: {answer(comparison)[0]} ({count_texts(comparison)})"


def change_title(comparison: Comparison) -> str:
    return f"change from {comparison.before}"


def metric_change(comparison: Comparison, metric: str) -> str:
    """The change of the mean over the cases of both runs; – if it is not compared."""
    aside = {item.metric for item in comparison.not_judged}
    found = (score for score in comparison.scores if score.metric == metric and metric not in aside)
    return next(map(change_text, found), "–")


def change_text(score: ScoreChange) -> str:
    """`▲ +0.25`, `▼ −0.25` or `= 0.00`; – without two values."""
    if score.delta is None:
        return "–"
    sign = "▲ +" if score.delta > 0 else "▼ −" if score.delta < 0 else "= "
    return f"{sign}{abs(score.delta):.2f}"


def case_data(change: CaseChange | None) -> Mapping[str, Any] | None:
    """The data of the page: the status of the case, and of each metric whose mean differs the change and the values."""
    if change is None or change.status == "same":
        return None
    word, tone = STATUSES[change.status]
    scores = {score.metric: [change_text(score), _values(score)] for score in change.scores}
    return {"status": word, "tone": tone} | ({"scores": scores} if scores else {})


def _values(score: ScoreChange) -> str:
    return f"{score_text(score.before)} → {score_text(score.after)}"
