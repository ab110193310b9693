"""Compares two runs of the same cases: calls, scores, failures, regressions.

`regression` decides which drops are significant. Changes that may be chance are listed and do not count as
regressions."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall

from ..matching.call_diff import diff_calls
from ..matching.placeholders import quoted
from ..model import CALLS_UNSEEN, EvalResult, Status
from ..suite import Suite
from .changes import RATE, CaseChange, CaseStatus, Comparison, ScoreChange, TurnChange
from .comparability import metrics_of, not_judged
from .outcomes import ConversationResults, ConversationTurn, RunConversation, TurnJson, follow
from .regression import Falls, Measure, Sides, find_falls
from .significance import FallTest, paired_interval, unpaired_interval


def compare(
    before: Iterable[TurnJson],
    after: Iterable[TurnJson],
    *,
    suite: Suite | None = None,
    names: tuple[str, str] = ("before", "after"),
    conversation_results: tuple[ConversationResults, ConversationResults] = ({}, {}),
) -> Comparison:
    """Compare two runs, given as turns in the form of /api/turns.

    Cases are identified by their id, conversations without one by the first user message. Planned turns that were not
    executed count as failures: with a `suite`, those in its plan; without one, those that another conversation of the
    case, in either run, has after the same beginning. `names` are those of the runs. A metric that only one run
    measured, or that both measured with different judges, prompts, versions or thresholds, is in the scores of the
    comparison but affects neither the status nor the pass rate of a case.
    """
    left = _by_case(follow(before, suite, conversation_results[0]))
    right = _by_case(follow(after, suite, conversation_results[1]))
    for case in left.keys() & right.keys():
        spoken = sorted({_spoken(item) for item in (*left[case], *right[case])})
        for side in (left, right):
            side[case] = [_with_missing_turns(item, spoken) for item in side[case]]
    results = [_all_results(side) for side in (left, right)]
    aside = not_judged(results[0], results[1], names)
    ignored = frozenset(entry.metric for entry in aside)
    both = {case: (left[case], right[case]) for case in left if _came(left[case]) and _came(right.get(case, ()))}
    falls = find_falls({case: _measures(*sides, ignored) for case, sides in both.items()})
    changed = tuple(
        _case_change(case, left.get(case, []), right.get(case, []), ignored, falls) for case in {**left, **right}
    )
    metrics = metrics_of(*results)
    return Comparison(
        *names,
        changed,
        tuple(_overall(both, falls, ignored)),
        _pass_rate(both, falls, ignored),
        aside,
        falls.sight,
        not metrics or bool(metrics - ignored),
    )


def _by_case(conversations: Iterable[RunConversation]) -> dict[str, list[RunConversation]]:
    cases: dict[str, list[RunConversation]] = {}
    for conversation in conversations:
        name = conversation.case_id
        if name is None:
            first = next(turn.turn["user_text"] for turn in conversation.turns if turn.turn is not None)
            name = f"“{first.strip()}”"
        cases.setdefault(name, []).append(conversation)
    return cases


def _spoken(conversation: RunConversation) -> tuple[str, ...]:
    """The user messages, turn by turn."""
    return tuple(turn.turn["user_text"] for turn in conversation.turns if turn.turn is not None)


def _with_missing_turns(conversation: RunConversation, spoken: Sequence[tuple[str, ...]]) -> RunConversation:
    """The conversation; if it has a case but no plan, with the missing turns of another that has the same beginning.
    `spoken` is sorted, so that a longer conversation follows its beginning."""
    if conversation.case_id is None or conversation.case is not None:
        return conversation
    came = _spoken(conversation)
    position = bisect_right(spoken, came)
    longer = spoken[position] if position < len(spoken) else ()
    if longer[: len(came)] != came:
        return conversation
    missing = (ConversationTurn(index, None) for index in range(len(came), len(longer)))
    return replace(conversation, turns=(*conversation.turns, *missing))


def _came(conversations: Iterable[RunConversation]) -> bool:
    return any(item.came for item in conversations)


def _all_results(cases: Mapping[str, Sequence[RunConversation]]) -> list[EvalResult]:
    return [result for side in cases.values() for conversation in side for result in _results(conversation)]


def _measures(
    before: Sequence[RunConversation], after: Sequence[RunConversation], ignored: Collection[str]
) -> dict[Measure, Sides]:
    """The measures tested for a case: whether its conversations pass, and each metric's scores."""
    measures: dict[Measure, Sides] = {None: (_passes(before, ignored), _passes(after, ignored))}
    left, right = _scores(before), _scores(after)
    for metric in left.keys() & right.keys():
        if metric not in ignored:
            measures[metric] = left[metric], right[metric]
    return measures


def _case_change(
    case: str,
    before: Sequence[RunConversation],
    after: Sequence[RunConversation],
    ignored: Collection[str],
    falls: Falls,
) -> CaseChange:
    passed = (_passed(before, ignored), _passed(after, ignored))
    if not _came(before) or not _came(after):
        status: CaseStatus = "gone" if _came(before) else "new" if _came(after) else "same"
        return CaseChange(case, status, passed)
    failed_before, failed_after = _failed(before, ignored), _failed(after, ignored)
    change = CaseChange(
        case,
        "same",
        passed,
        tuple(_turn_changes(before, after)),
        tuple(score for score in _case_scores(case, before, after, falls) if score.metric not in ignored),
        tuple(name for name in failed_after if name not in failed_before),
        tuple(name for name in failed_before if name not in failed_after),
    )
    return replace(change, status=_status(change, (case, None) in falls.fell_single))


def _status(change: CaseChange, fell: bool) -> CaseStatus:
    (good, total), (good_now, total_now) = change.passed
    rate, rate_now = good / total, good_now / total_now
    if fell or any(score.fell for score in change.scores):
        return "worse"
    if rate == 1 > rate_now:
        return "newly_failing"
    if rate_now == 1 > rate:
        return "fixed"
    return "changed" if change.turns or change.scores or rate != rate_now else "same"


def _passes(conversations: Iterable[RunConversation], ignored: Collection[str]) -> list[float]:
    """For each conversation 1 if nothing failed, else 0."""
    return [float(not _failed([conversation], ignored)) for conversation in conversations]


def _passed(conversations: Sequence[RunConversation], ignored: Collection[str]) -> tuple[int, int]:
    return sum(map(int, _passes(conversations, ignored))), len(conversations)


def _failed(conversations: Iterable[RunConversation], ignored: Collection[str]) -> list[str]:
    """The failures in any of them, without repetition and without `ignored` metrics."""
    names: dict[str, None] = {}
    for conversation in conversations:
        for turn in conversation.turns:
            if turn.turn is None:
                names["missing_turn"] = None
            elif turn.failure is not None:
                names["failed_turn"] = None
        for result in _results(conversation):
            bad = result.status in (Status.FAILED, Status.ERRORED) or result.label == CALLS_UNSEEN
            if bad and result.evaluator not in ignored:
                names[result.evaluator] = None
    return list(names)


def _results(conversation: RunConversation) -> list[EvalResult]:
    return [result for turn in conversation.turns for result in turn.results] + list(conversation.results)


def _turn_changes(before: Sequence[RunConversation], after: Sequence[RunConversation]) -> Iterable[TurnChange]:
    left, right = _turns_by_index(before), _turns_by_index(after)
    for index in sorted({*left, *right}):
        calls, share = _typical(left.get(index, []))
        calls_now, share_now = _typical(right.get(index, []))
        as_data = [
            replace(call, arguments=quoted(call.arguments) if call.arguments else call.arguments) for call in calls
        ]
        changes = tuple(change for change in diff_calls(as_data, calls_now) if change.kind != "same")
        if changes:
            yield TurnChange(index + 1, changes, tuple(calls), tuple(calls_now), (share, share_now))


def _turns_by_index(conversations: Iterable[RunConversation]) -> dict[int, list[ConversationTurn]]:
    turns: dict[int, list[ConversationTurn]] = {}
    for conversation in conversations:
        for turn in conversation.turns:
            if turn.turn is not None:
                turns.setdefault(turn.index, []).append(turn)
    return turns


def _typical(turns: Sequence[ConversationTurn]) -> tuple[list[ToolCall], tuple[int, int]]:
    """The most frequent calls of the turns (the first in a tie), their number of turns, and the number of all turns."""
    if not turns:
        return [], (0, 0)
    variants = [[ToolCall.from_dict(call) for call in turn.turn["tool_calls"]] for turn in turns if turn.turn]
    keys = [canonical([[call.name, call.arguments] for call in calls]) for calls in variants]
    key, count = Counter(keys).most_common(1)[0]
    return variants[keys.index(key)], (count, len(variants))


def _scores(conversations: Iterable[RunConversation]) -> dict[str, list[float]]:
    """For each metric one score per conversation, the mean over its turns, in the order of the conversations."""
    scores: dict[str, list[float]] = {}
    for conversation in conversations:
        found: dict[str, list[float]] = {}
        for result in _results(conversation):
            if result.score is not None:
                found.setdefault(result.evaluator, []).append(result.score)
        for metric, values in found.items():
            scores.setdefault(metric, []).append(fmean(values))
    return scores


def _case_scores(
    case: str, before: Sequence[RunConversation], after: Sequence[RunConversation], falls: Falls
) -> Iterable[ScoreChange]:
    """The metrics whose means differ."""
    left, right = _scores(before), _scores(after)
    for metric in {**left, **right}:
        old, new = left.get(metric, []), right.get(metric, [])
        if _mean(old) != _mean(new):
            tested = falls.single.get((case, metric)) if min(len(old), len(new)) > 1 else None
            interval = unpaired_interval(old, new, f"{case} {metric}")
            yield _score_change(metric, old, new, interval, tested, (case, metric) in falls.fell_single)


def _overall(
    both: Mapping[str, tuple[Sequence[RunConversation], Sequence[RunConversation]]],
    falls: Falls,
    ignored: Collection[str],
) -> Iterable[ScoreChange]:
    """Every metric over the cases of both runs: a pair of means for each case."""
    pairs: dict[str, list[tuple[float | None, float | None]]] = {}
    for before, after in both.values():
        left, right = _scores(before), _scores(after)
        for metric in {**left, **right}:
            pairs.setdefault(metric, []).append((_mean(left.get(metric, ())), _mean(right.get(metric, ()))))
    for metric, found in pairs.items():
        old = [a for a, _ in found if a is not None]
        new = [b for _, b in found if b is not None]
        differences = [b - a for a, b in found if a is not None and b is not None]
        interval = None if metric in ignored else paired_interval(differences, metric)
        yield _score_change(metric, old, new, interval, falls.overall.get(metric), metric in falls.fell)


def _pass_rate(
    both: Mapping[str, tuple[Sequence[RunConversation], Sequence[RunConversation]]],
    falls: Falls,
    ignored: Collection[str],
) -> ScoreChange:
    """The mean over the cases of the share of their conversations that pass."""
    old, new = ([fmean(_passes(sides[index], ignored)) for sides in both.values()] for index in (0, 1))
    differences = [b - a for a, b in zip(old, new, strict=True)]
    interval = paired_interval(differences, RATE)
    return _score_change(RATE, old, new, interval, falls.overall.get(None), None in falls.fell)


def _score_change(
    metric: str,
    old: Sequence[float],
    new: Sequence[float],
    interval: tuple[float, float] | None,
    tested: FallTest | None,
    fell: bool,
) -> ScoreChange:
    p_value = None if tested is None or tested.least == 1 else tested.p_value  # 1: nothing varies
    return ScoreChange(metric, _mean(old), _mean(new), (len(old), len(new)), interval, p_value, fell)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
