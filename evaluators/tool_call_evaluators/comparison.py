"""What changed between two runs of the same cases: calls, scores, failures; and whether it got worse."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall

from .calldiff import CallChange, diff_calls
from .outcomes import Conversation, ConversationResults, ConversationTurn, TurnJson, follow
from .placeholders import quoted
from .significance import paired_interval, sign_test, unpaired_interval
from .suite import Suite

P_LIMIT = 0.05

CaseStatus = Literal["new_failure", "fixed", "gone", "new", "changed", "same"]
"""`gone` and `new`: only the run before, or only the run after, has the case. `changed`: calls or scores, but not
whether it passes."""


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A metric before and after: means, None where it was not measured, and how many scores they are of.

    `interval` (95 %) and `p_value` (sign test) are of the change and None where there are too few scores for them.
    """

    metric: str
    before: float | None
    after: float | None
    counts: tuple[int, int]
    interval: tuple[float, float] | None = None
    p_value: float | None = None

    @property
    def delta(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def fell(self) -> bool:
        """Whether it is lower by more than chance explains: interval and sign test agree."""
        below = self.interval is not None and self.interval[1] < 0
        return below and self.p_value is not None and self.p_value <= P_LIMIT


@dataclass(frozen=True, slots=True)
class TurnChange:
    """The calls of a turn (from 1) that differ, with the calls their indices point into.

    With repetitions it is the most frequent calls of either side that are compared; `shares` says how many of the
    repetitions made just these.
    """

    turn: int
    changes: tuple[CallChange, ...]
    before: tuple[ToolCall, ...]
    after: tuple[ToolCall, ...]
    shares: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case before and after. `passed` counts, for both sides, conversations that passed and all there were."""

    case: str
    status: CaseStatus
    passed: tuple[tuple[int, int], tuple[int, int]]
    turns: tuple[TurnChange, ...] = ()
    scores: tuple[ScoreChange, ...] = ()
    failures: tuple[str, ...] = ()
    """What fails after and did not before: names of metrics, `failed_turn`, `missing_turn`."""
    fixes: tuple[str, ...] = ()
    """What failed before and does not after."""

    @property
    def regressed(self) -> bool:
        """It fails now and did not, is gone, or a score fell by more than chance explains."""
        return self.status in ("new_failure", "gone") or any(score.fell for score in self.scores)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs. `cases` are in the order of the run before; `scores` are over all cases that both runs have."""

    before: str
    after: str
    cases: tuple[CaseChange, ...]
    scores: tuple[ScoreChange, ...]

    @property
    def regressed(self) -> bool:
        """Whether anything got worse."""
        return any(case.regressed for case in self.cases) or any(score.fell for score in self.scores)

    @property
    def counts(self) -> dict[CaseStatus, int]:
        """How many cases have which status; only those there are."""
        return dict(Counter(case.status for case in self.cases))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "before": self.before,
            "after": self.after,
            "regressed": self.regressed,
            "counts": self.counts,
            "scores": [_score_dict(score) for score in self.scores],
            "cases": [
                {
                    "case": case.case,
                    "status": case.status,
                    "regressed": case.regressed,
                    "passed": [{"passed": passed, "of": total} for passed, total in case.passed],
                    "failures": list(case.failures),
                    "fixes": list(case.fixes),
                    "scores": [_score_dict(score) for score in case.scores],
                    "turns": [_turn_dict(turn) for turn in case.turns],
                }
                for case in self.cases
            ],
        }


def compare(
    before: Iterable[TurnJson],
    after: Iterable[TurnJson],
    *,
    suite: Suite | None = None,
    names: tuple[str, str] = ("before", "after"),
    conversation_results: tuple[ConversationResults, ConversationResults] = ({}, {}),
) -> Comparison:
    """Compare two runs, given as turns in the form of /api/turns.

    Cases are told apart by their id, conversations without one by what the user said first. With a `suite`, turns
    that it planned and that never came count as failures; without one, those that never came where a conversation of
    a case broke off: another of that case, in either run, began alike and went on. `names` are those of the runs. A
    metric that only one of them measured at all is in the scores of the comparison, and no change of any case.
    """
    left = _by_case(follow(before, suite, conversation_results[0]))
    right = _by_case(follow(after, suite, conversation_results[1]))
    for case in left.keys() & right.keys():
        spoken = sorted({_spoken(item) for item in (*left[case], *right[case])})
        for side in (left, right):
            side[case] = [_with_missing_turns(item, spoken) for item in side[case]]
    both = [(case, left[case], right[case]) for case in left if case in right]
    overall = tuple(_overall(both))
    shared = {score.metric for score in overall if score.before is not None and score.after is not None}
    changed = [_case_change(case, left.get(case, []), right.get(case, []), shared) for case in {**left, **right}]
    return Comparison(*names, tuple(changed), overall)


def _by_case(conversations: Iterable[Conversation]) -> dict[str, list[Conversation]]:
    cases: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        name = conversation.case_id
        if name is None:
            first = next(turn.turn["user_text"] for turn in conversation.turns if turn.turn is not None)
            name = f"“{first.strip()}”"
        cases.setdefault(name, []).append(conversation)
    return cases


def _spoken(conversation: Conversation) -> tuple[str, ...]:
    """What the user said, turn by turn."""
    return tuple(turn.turn["user_text"] for turn in conversation.turns if turn.turn is not None)


def _with_missing_turns(conversation: Conversation, spoken: Sequence[tuple[str, ...]]) -> Conversation:
    """Where it has a case, but no plan: with the turns that it lacks of another that began like it. `spoken` is sorted,
    so that what goes on follows what broke off."""
    if conversation.case_id is None or conversation.case is not None:
        return conversation
    came = _spoken(conversation)
    position = bisect_right(spoken, came)
    longer = spoken[position] if position < len(spoken) else ()
    if longer[: len(came)] != came:
        return conversation
    missing = (ConversationTurn(index, None) for index in range(len(came), len(longer)))
    return replace(conversation, turns=(*conversation.turns, *missing))


def _case_change(
    case: str, before: Sequence[Conversation], after: Sequence[Conversation], metrics: Collection[str]
) -> CaseChange:
    came_before, came_after = (any(item.came for item in side) for side in (before, after))
    passed = (_passed(before), _passed(after))
    if not came_before or not came_after:
        status: CaseStatus = "gone" if came_before else "new" if came_after else "same"
        return CaseChange(case, status, passed)
    turns = tuple(_turn_changes(before, after))
    scores = tuple(score for score in _case_scores(case, before, after) if score.metric in metrics)
    failed_before, failed_after = _failed(before), _failed(after)
    change = CaseChange(
        case,
        "same",
        passed,
        turns,
        scores,
        tuple(name for name in failed_after if name not in failed_before),
        tuple(name for name in failed_before if name not in failed_after),
    )
    return replace(change, status=_status(change))


def _status(change: CaseChange) -> CaseStatus:
    (good, total), (good_now, total_now) = change.passed
    rate, rate_now = good / total, good_now / total_now
    if rate == 1 > rate_now or (rate > rate_now and _certain(change, down=True)):
        return "new_failure"
    if rate_now == 1 > rate or (rate < rate_now and _certain(change, down=False)):
        return "fixed"
    return "changed" if change.turns or change.scores or rate != rate_now else "same"


def _certain(change: CaseChange, *, down: bool) -> bool:
    """Whether a case that passed only sometimes passes less often (or more) by more than chance explains."""
    before, after = ([1.0] * good + [0.0] * (total - good) for good, total in change.passed)
    interval = unpaired_interval(before, after, change.case)
    if interval is None:
        return False
    return interval[1] < 0 if down else interval[0] > 0


def _passed(conversations: Sequence[Conversation]) -> tuple[int, int]:
    return sum(not _failed([conversation]) for conversation in conversations), len(conversations)


def _failed(conversations: Iterable[Conversation]) -> list[str]:
    """What fails in any of them, each once."""
    names: dict[str, None] = {}
    for conversation in conversations:
        for turn in conversation.turns:
            if turn.turn is None:
                names["missing_turn"] = None
            elif turn.failure is not None:
                names["failed_turn"] = None
        for result in _results(conversation):
            if result.status in ("failed", "errored"):
                names[result.evaluator] = None
    return list(names)


def _results(conversation: Conversation) -> list[Any]:
    return [result for turn in conversation.turns for result in turn.results] + list(conversation.results)


def _turn_changes(before: Sequence[Conversation], after: Sequence[Conversation]) -> Iterable[TurnChange]:
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


def _turns_by_index(conversations: Iterable[Conversation]) -> dict[int, list[ConversationTurn]]:
    turns: dict[int, list[ConversationTurn]] = {}
    for conversation in conversations:
        for turn in conversation.turns:
            if turn.turn is not None:
                turns.setdefault(turn.index, []).append(turn)
    return turns


def _typical(turns: Sequence[ConversationTurn]) -> tuple[list[ToolCall], tuple[int, int]]:
    """The calls that most of the turns made (the first of equally many), how many did, and of how many."""
    if not turns:
        return [], (0, 0)
    variants = [[ToolCall.from_dict(call) for call in turn.turn["tool_calls"]] for turn in turns if turn.turn]
    keys = [canonical([[call.name, call.arguments] for call in calls]) for calls in variants]
    key, count = Counter(keys).most_common(1)[0]
    return variants[keys.index(key)], (count, len(variants))


def _scores(conversations: Iterable[Conversation]) -> dict[str, list[float]]:
    """For each metric one score a conversation, the mean over its turns, in the order of the conversations."""
    scores: dict[str, list[float]] = {}
    for conversation in conversations:
        found: dict[str, list[float]] = {}
        for result in _results(conversation):
            if result.score is not None:
                found.setdefault(result.evaluator, []).append(result.score)
        for metric, values in found.items():
            scores.setdefault(metric, []).append(fmean(values))
    return scores


def _case_scores(case: str, before: Sequence[Conversation], after: Sequence[Conversation]) -> Iterable[ScoreChange]:
    """Metrics whose mean differs. Repetitions have no partners: the sign test pairs them in their order."""
    left, right = _scores(before), _scores(after)
    for metric in {**left, **right}:
        old, new = left.get(metric, []), right.get(metric, [])
        mean, mean_now = (fmean(side) if side else None for side in (old, new))
        if mean != mean_now:
            pairs = [b - a for a, b in zip(old, new, strict=False)]
            yield ScoreChange(
                metric,
                mean,
                mean_now,
                (len(old), len(new)),
                unpaired_interval(old, new, f"{case} {metric}"),
                sign_test(pairs) if len(pairs) > 1 else None,
            )


def _overall(both: Sequence[tuple[str, Sequence[Conversation], Sequence[Conversation]]]) -> Iterable[ScoreChange]:
    """Every metric over the cases that both runs have: a pair of means for each case."""
    pairs: dict[str, list[tuple[float | None, float | None]]] = {}
    for _, before, after in both:
        left, right = _scores(before), _scores(after)
        for metric in {**left, **right}:
            pair = tuple(fmean(side[metric]) if metric in side else None for side in (left, right))
            pairs.setdefault(metric, []).append((pair[0], pair[1]))
    for metric, found in pairs.items():
        old = [a for a, _ in found if a is not None]
        new = [b for _, b in found if b is not None]
        differences = [b - a for a, b in found if a is not None and b is not None]
        yield ScoreChange(
            metric,
            fmean(old) if old else None,
            fmean(new) if new else None,
            (len(old), len(new)),
            paired_interval(differences, metric),
            sign_test(differences),
        )


def _score_dict(score: ScoreChange) -> dict[str, Any]:
    return {**asdict(score), "delta": score.delta, "fell": score.fell}


def _turn_dict(turn: TurnChange) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "changes": [_change_dict(change, turn) for change in turn.changes],
        "shares": [{"made": made, "of": total} for made, total in turn.shares],
    }


def _change_dict(change: CallChange, turn: TurnChange) -> Mapping[str, Any]:
    def told(calls: Sequence[ToolCall], index: int | None) -> dict[str, Any] | None:
        return None if index is None else {"name": calls[index].name, "arguments": calls[index].arguments}

    return {
        **change.to_dict(),
        "before": told(turn.before, change.left),
        "after": told(turn.after, change.right),
    }
