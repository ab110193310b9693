"""A comparison of two runs as text, Markdown and JSON, and in the report of one of the runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from a2a_tool_capture.models import ToolCall

from ..matching.arguments import Difference
from ..matching.explain import CallChange
from ..outcomes.comparison import CaseChange, Comparison, ScoreChange, TurnChange
from ..outcomes.conversations import excluded_text
from ..outcomes.regression import EVIDENCE, FALSE_ALARMS, LEAST_CASES, Sensitivity
from ..texts import call_text, counted, json_excerpt, printable, report_json, score_text

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
_INCOMPARABLE = "The runs share no metric that was measured the same way: run both again with the same evaluators."
_NO_COMMON_CASE = "They have no case in common: is the baseline one of another suite, or were all cases renamed?"
_NOTHING_SCORED = "No case has scored attempts in both: what was excluded shows nothing about the agent."
_HEAD = ("mean of cases", "before", "after", "change", "95 % interval", "p")


def shown_comparison(comparison: Comparison) -> dict[str, Any]:
    """What every form shows of a comparison: the answer in a sentence and what qualifies it, the cases that changed,
    the worst first, then the figures. Of `rows`: the cells of each mean, and whether it dropped significantly."""
    found, tone = answer(comparison)
    changed = [case for case in comparison.cases if case.status != "same"]
    changed.sort(key=lambda case: list(STATUSES).index(case.status))
    more = len(changed) - MAX_CASES
    scores = [comparison.pass_rate, *comparison.scores] if comparison.sensitivity.cases else comparison.scores
    return {
        "sentence": f"{comparison.before} → {comparison.after}: {found} ({_count_texts(comparison)})",
        "answer": found,
        "tone": tone,
        "notes": _notes(comparison),
        "cases": list(map(_shown_case, changed[:MAX_CASES])),
        "more": [f"… and {counted(more, 'more case')}."] if more > 0 else [],
        "head": _HEAD,
        "rows": [(_score_cells(score), score.dropped) for score in scores],
        "figures": _figures(comparison),
    }


def comparison_json(comparison: Comparison) -> str:
    """The sentence, and `Comparison.to_dict`, as JSON text."""
    return report_json({"sentence": shown_comparison(comparison)["sentence"], **comparison.to_dict()}) + "\n"


def comparison_text(comparison: Comparison, paint: Paint = lambda text, tone: text) -> str:
    """For a terminal. `paint(piece, tone)` returns a piece of a line with colour codes."""
    shown = shown_comparison(comparison)

    def painted(text: str, tone: Tone | None) -> str:
        return printable(text) if tone is None else paint(printable(text), tone)

    lines = [painted(shown["sentence"], shown["tone"]), *(painted(*line) for line in shown["notes"]), ""]
    for case in shown["cases"]:
        lines.append(f"{painted(case['title'], case['tone'])} ({case['rate']})")
        lines += [f"  {painted(*line)}" for line in (*case["outcome"], *case["calls"], *case["scores"])]
    lines += [*shown["more"], *([""] if shown["cases"] else [])]
    rows = [(_HEAD, False), *shown["rows"]] if shown["rows"] else []
    widths = [max(map(len, column)) for column in zip(*(cells for cells, _ in rows), strict=True)]
    for cells, dropped in rows:
        numbers = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        row = "  ".join([cells[0].ljust(widths[0]), *numbers]).rstrip()
        lines.append(painted(row, "worse" if dropped else "quiet" if cells is _HEAD else None))
    lines += ["", *(painted(*line) for line in shown["figures"])]
    return "\n".join(lines).rstrip() + "\n"


def _count_texts(comparison: Comparison) -> str:
    counts = comparison.counts
    parts = [f"{counts[status]:,} {word}" for status, (word, _) in STATUSES.items() if status in counts]
    return ", ".join(parts) or "no cases"


def answer(comparison: Comparison) -> tuple[str, Tone]:
    """The decision in a few words, and its tone."""
    decision = comparison.decision.answer
    if decision == "worse":
        return "worse", "worse"
    if not comparison.comparable:
        return "cannot be compared", "worse"
    return ("not enough runs to decide", "changed") if decision == "undecided" else (decision, "better")


def _notes(comparison: Comparison) -> list[_Line]:
    """What qualifies the answer: what is not compared, and what would decide."""
    lines: list[_Line] = [
        (f"not compared: {metric}: {reason}", "changed") for metric, reason in comparison.not_judged.items()
    ]
    lines += [(line, "quiet") for line in _baseline_lines(comparison)]
    for name, excluded in zip((comparison.before, comparison.after), comparison.exclusions, strict=True):
        if text := excluded_text(excluded):
            lines.append((text.replace("excluded", f"excluded in {name}", 1), "changed"))
    if not comparison.comparable:
        lines.append((_incomparable(comparison), "worse"))
    if dropped := [score.metric for score in (comparison.pass_rate, *comparison.scores) if score.dropped]:
        lines.append((f"dropped significantly over all cases: {', '.join(dropped)}", "worse"))
    decision = comparison.decision
    if decision.is_deterministic:
        lines.append((_DETERMINISTIC, None))
    elif "newly_failing" in comparison.counts and decision.answer != "worse":
        lines.append((_NEWLY_FAILING, None))
    if comparison.comparable and decision.repetitions is not None:
        lines.append((f"To decide, run each case {decision.repetitions} times in both runs (`repeat`).", "changed"))
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


def _figures(comparison: Comparison) -> list[_Line]:
    """What the comparison is based on, and how large a drop it detects."""
    found = comparison.sensitivity
    if not found.cases or comparison.decision.is_deterministic:
        return []
    each = "1 conversation" if found.repetitions == 1 else f"{found.repetitions:.3g} conversations"
    where = "both runs" if found.runs == 1 else f"the later run, and {found.runs:.3g} earlier runs of each"
    lines = [
        f"Based on {counted(found.cases, 'case')}, {each} of each in {where}; an unchanged agent counts as regressed in"
        f" at most {FALSE_ALARMS:.0%} of comparisons."
    ]
    if found.detected_rate is not None:
        drop = f"from {found.pass_rate:.0%} to about {found.detected_rate:.0%}"
        lines.append(
            f"A drop of the pass rate {drop} is detected in 4 of 5 comparisons; smaller drops are mostly missed."
        )
    elif found.cases < LEAST_CASES:
        lines.append(f"Too few cases to distinguish a drop from chance: at least {LEAST_CASES} are needed.")
    else:
        lines.append("No drop of the pass rate is detected in 4 of 5 comparisons: add cases or repetitions.")
    lines += [_asked_line(found.asked, found)] if found.asked is not None else []
    return [(line, "changed" if found.detected_rate is None else "quiet") for line in lines]


def _asked_line(asked: float, sensitivity: Sensitivity) -> str:
    drop, needed = f"a drop of the pass rate by {asked * 100:.3g} points", sensitivity.asked_repetitions
    if needed is None:
        return f"No reasonable number of attempts shows {drop} in {counted(sensitivity.cases, 'case')}: add cases."
    if needed <= sensitivity.repetitions:
        return f"These attempts are enough to detect {drop} in 4 of 5 comparisons."
    return f"To detect {drop} in 4 of 5 comparisons, attempt each case {needed} times in both runs (`repeat`)."


def _shown_case(case: CaseChange) -> dict[str, Any]:
    """What fails or passes now, the differences of its calls, and its scores, as lines."""
    sides = [
        f"{passed} of {total} passed" if total else "not scored" if excluded else "missing"
        for (passed, total), excluded in zip(case.passed, case.excluded, strict=True)
    ]
    outcome: list[_Line] = [(f"now failing: {', '.join(case.failures)}", "worse")] if case.failures else []
    outcome += [(f"now passing: {', '.join(case.fixes)}", "better")] if case.fixes else []
    calls = [
        (f"turn {turn.turn}: {line}", tone)
        for turn in case.turns
        for change in turn.changes
        for line, tone in _change_lines(change, turn)
    ]
    scores: list[_Line] = [(line, "quiet") for turn in case.turns for line in _shares(turn)]
    scores += [(_score_line(score), "worse" if score.dropped else None) for score in case.scores]
    word, tone = STATUSES[case.status]
    return {
        "change": case,
        "name": case.case,
        "word": word,
        "title": f"{word}: {case.case}",
        "tone": tone,
        "rate": f"{sides[0]}, now {sides[1]}",
        "outcome": outcome,
        "calls": calls,
        "scores": scores,
    }


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
    metric, before, after, _, interval, p_value = _score_cells(score)
    text = f"{metric}: {before} → {after}"
    text += f", 95 % interval {interval}" if interval != "–" else ""
    text += f", p = {p_value}" if p_value != "–" else ""
    return text + (", significant" if score.dropped else "")


def _score_cells(score: ScoreChange) -> tuple[str, ...]:
    return (
        score.metric,
        score_text(score.before),
        score_text(score.after),
        "–" if score.delta is None else f"{score.delta:+.2f}",
        "–" if score.interval is None else "{:+.2f} to {:+.2f}".format(*score.interval),
        "–" if score.p_value is None else f"{score.p_value:.2g}",
    )


def baseline_tile(comparison: Comparison) -> tuple[str, str, str]:
    """The title, the decision, and what changed."""
    return f"compared with {comparison.before}", answer(comparison)[0], _count_texts(comparison)


def change_line(comparison: Comparison) -> str:
    """`monday: not enough runs to decide (1 newly failing, 2 unchanged)`, for the end of a run."""
    return f"{comparison.before}: {answer(comparison)[0]} ({_count_texts(comparison)})"
