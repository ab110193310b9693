"""Compares two runs of the same cases: calls, scores, failures, regressions.

`regression` decides which drops are significant. Changes that may be chance are listed and do not count as
regressions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Literal, TypeAlias

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall

from ..attempts import Exclusion
from ..grouping import grouped
from ..matching.explain import CallChange, diff_calls
from ..matching.placeholders import quoted
from ..model import CALLS_UNSEEN, EvalResult, ExpectedCall, Status
from ..simulation.record import SIMULATED_USER, UserRecord
from ..visibility import calls_in
from .conversations import (
    ConversationResults,
    ConversationTurn,
    RunConversation,
    TurnJson,
    agent_of_conversation,
    follow,
)
from .regression import (
    DETERMINISTIC_RUNS,
    EVIDENCE,
    MARGIN,
    UNTESTABLE,
    Decision,
    Drops,
    DropTests,
    Measure,
    Sensitivity,
    Sides,
    decide,
    find_drops,
    mean_interval,
    observations,
    sensitivity_of,
)

JUDGE_DETAILS = ("model", "prompt", "votes")
"""The keys of a result's `details.judge` on which its score depends."""


_Yardsticks: TypeAlias = Mapping[str, Mapping[str, set[str]]]


def _not_judged(sides: Sequence[_Yardsticks], names: tuple[str, str]) -> dict[str, str]:
    """The metrics that only one run measured, or that both measured differently, each with the reason."""
    found = {}
    for metric in {**sides[0], **sides[1]}:
        left, right = (side.get(metric) for side in sides)
        if left is None or right is None:
            found[metric] = f"only {names[right is not None]} measured it"
            continue
        differing = [name for name in left if name in right and left[name] != right[name]]
        listed = [[" and ".join(sorted(side[name])) for name in differing] for side in (left, right)]
        if differing:
            found[metric] = "; ".join(
                f"{name} {one} in {names[0]}, {other} in {names[1]}"
                for name, one, other in zip(differing, *listed, strict=True)
            )
    return found


def _yardsticks(results: Iterable[EvalResult]) -> _Yardsticks:
    """How each metric was measured that was, or should have been: the values of each property; none without scores.

    An evaluator that errored everywhere, or for which the calls are unknown, counts as measured: that is a failure.
    """
    found: dict[str, dict[str, set[str]]] = {}
    for result in results:
        if result.status is Status.SKIPPED and result.label != CALLS_UNSEEN:
            continue
        properties = found.setdefault(result.evaluator, {})
        if result.score is not None:
            given = result.details.get("judge")
            judge = given if isinstance(given, Mapping) else {}
            values = {
                "evaluator version": result.version,
                "threshold": "none" if result.threshold is None else f"{result.threshold:g}",
                "scale": "{:g} to {:g}".format(*result.scale),
                **{f"judge {name}": judge.get(name, "none") for name in JUDGE_DETAILS},
            }
            for name, value in values.items():
                properties.setdefault(name, set()).add(str(value))
    return found


RATE = "pass rate"
"""The metric name of `Comparison.pass_rate`, the share of conversations that pass."""

CaseStatus = Literal["worse", "newly_failing", "fixed", "gone", "new", "unscored", "changed", "same"]
"""`worse`: its repetitions alone show a significant drop. `newly_failing`: it always passed before but not now, which
may be chance. `fixed`: it always passes now but did not before. `gone`: only the run before has the case. `new`: only
the run after has it, or a baseline of several runs has fewer than `EVIDENCE` scored attempts. `unscored`: all its
attempts in a run are excluded. `changed`: other changes of calls, scores or pass rate."""


FailOn = Literal["regression", "newly-failing", "undecided"]
"""On what a pipeline stops: `newly-failing` also on a regression; `undecided` if there are too few runs."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The stored runs of an agent version with which a run is compared, the newest first."""

    version: str
    runs: tuple[str, ...]
    older: int = 0
    """Runs of the version that are not compared, as there are newer ones."""


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A metric before and after: the means (None if not measured) and the numbers of scores.

    `interval` (95 %, bootstrap) and `p_value` (one-sided probability of such a drop by chance) describe the change;
    None with too few scores or for a metric that is not compared. `dropped`: the drop is significant, corrected for all
    tests of the comparison.
    """

    metric: str
    before: float | None
    after: float | None
    counts: tuple[int, int]
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    dropped: bool = False

    @property
    def delta(self) -> float | None:
        return None if self.before is None or self.after is None else self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "delta": self.delta}


@dataclass(frozen=True, slots=True)
class TurnChange:
    """The differing calls of a turn (from 1), with the calls that their indices refer to.

    With repetitions, the most frequent calls of each side are compared; `shares` is the number of repetitions with
    these calls and the total.
    """

    turn: int
    changes: tuple[CallChange, ...]
    before: tuple[ToolCall, ...]
    after: tuple[ToolCall, ...]
    shares: tuple[tuple[int, int], tuple[int, int]]

    def to_dict(self) -> dict[str, Any]:
        sides = [
            [{"name": call.name, "arguments": call.arguments} for call in calls] for calls in (self.before, self.after)
        ]
        return {
            "turn": self.turn,
            "changes": [
                {
                    **change.to_dict(),
                    "before": None if change.left is None else sides[0][change.left],
                    "after": None if change.right is None else sides[1][change.right],
                }
                for change in self.changes
            ],
            "shares": [{"made": made, "of": total} for made, total in self.shares],
        }


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case before and after. `passed` holds, for each side, the numbers of passed and of all scored conversations;
    `excluded` those that show nothing about the agent."""

    case: str
    status: CaseStatus
    passed: tuple[tuple[int, int], tuple[int, int]]
    turns: tuple[TurnChange, ...] = ()
    scores: tuple[ScoreChange, ...] = ()
    failures: tuple[str, ...] = ()
    """New failures: names of metrics, `failed_turn`, `missing_turn`."""
    fixes: tuple[str, ...] = ()
    """Failures of the run before that are fixed."""
    excluded: tuple[int, int] = (0, 0)

    @property
    def regressed(self) -> bool:
        """Whether the case passed before, and is missing, or its pass rate or a score dropped significantly."""
        return self.status in ("worse", "gone") and self.passed[0][0] > 0

    def to_dict(self) -> dict[str, Any]:
        own = ("case", "status", "regressed", "failures", "fixes", "excluded")
        return {
            **{name: getattr(self, name) for name in own},
            "passed": [{"passed": passed, "of": total} for passed, total in self.passed],
            "scores": [score.to_dict() for score in self.scores],
            "turns": [turn.to_dict() for turn in self.turns],
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs. `cases` are in the order of the run before; `scores` are over all cases that both runs have.

    `pass_rate`: the share of conversations that pass by the compared metrics. `not_judged`: the metrics that are not
    compared, as the runs measured them differently, each with the reason, which names the runs. `sensitivity`: how
    large a drop the comparison detects.
    """

    before: str
    after: str
    cases: tuple[CaseChange, ...]
    scores: tuple[ScoreChange, ...]
    pass_rate: ScoreChange
    not_judged: Mapping[str, str]
    sensitivity: Sensitivity
    decision: Decision
    comparable: bool = True
    """False if the runs have metrics but share none that can be compared, or have no case with scored attempts in
    both."""
    exclusions: tuple[Mapping[Exclusion, int], Mapping[Exclusion, int]] = ({}, {})
    """The number of attempts of each side that show nothing about the agent, by the reason."""
    baseline: Baseline | None = None

    @property
    def regressed(self) -> bool:
        """Whether a case is missing, any drop is significant, or a deterministic agent fails a case that passed before.

        For an unchanged agent with all its cases, this is true in at most `regression.FALSE_ALARMS` of all comparisons.
        """
        return self.decision.answer == "worse"

    def fails_on(self, conditions: Collection[FailOn]) -> bool:
        """Whether one of the conditions on which a pipeline stops is met."""
        met = {
            "regression": self.regressed,
            "newly-failing": self.regressed or "newly_failing" in self.counts,
            "undecided": self.decision.answer == "undecided" or not self.comparable,
        }
        return any(met[condition] for condition in conditions)

    @property
    def counts(self) -> dict[CaseStatus, int]:
        """The number of cases of each status that occurs."""
        return dict(Counter(case.status for case in self.cases))

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        own = ("before", "after", "regressed", "comparable", "counts")
        return {
            **{name: getattr(self, name) for name in own},
            "decision": asdict(self.decision),
            "not_judged": [{"metric": metric, "reason": reason} for metric, reason in self.not_judged.items()],
            "sensitivity": asdict(self.sensitivity),
            "excluded": list(self.exclusions),
            "baseline": self.baseline and asdict(self.baseline),
            "pass_rate": self.pass_rate.to_dict(),
            "scores": [score.to_dict() for score in self.scores],
            "cases": [case.to_dict() for case in self.cases],
        }


def compare(
    before: Iterable[TurnJson],
    after: Iterable[TurnJson],
    *,
    names: tuple[str, str] = ("before", "after"),
    conversation_results: tuple[ConversationResults, ConversationResults] = ({}, {}),
    margin: float = MARGIN,
    detect: float | None = None,
    baseline: Baseline | None = None,
) -> Comparison:
    """Compare two runs, given as turns in the form of /api/turns.

    Cases are identified by their id (and, where several agents had conversations of one, by the agent), conversations
    without one by the first user message. Turns that another conversation of the case, in either run, has after the
    same beginning count as failures where they were not executed. `names` are those of the runs. A metric that only
    one run measured, or that both measured with different judges, prompts, versions or thresholds, is in the scores of
    the comparison but affects neither the status nor the pass rate of a case. Conversations that show nothing about the
    agent (`RunConversation.exclusion`) are left out and counted. `margin`: pass rates that differ by less are
    equivalent. `detect`: the drop of the pass rate that the comparison should be able to show (`Sensitivity.asked`).

    `before` may have the turns of several runs, with `baseline` as those of an agent version: then a case counts once
    it has `EVIDENCE` scored attempts there, and is missing only if the newest of these runs has it.
    """
    turns = list(before), list(after)
    of_several = _cases_of_several_agents(turns[0]) | _cases_of_several_agents(turns[1])
    left, right = (
        _by_case(_runs(own, results), of_several) for own, results in zip(turns, conversation_results, strict=True)
    )
    for case in left.keys() & right.keys():
        runs = left[case] | {-1: [item for run in right[case].values() for item in run]}
        spoken = sorted({_spoken(item) for run in runs.values() for item in run})
        for side in (left, right):
            side[case] = {
                number: [_with_missing_turns(item, spoken) for item in run] for number, run in side[case].items()
            }
    results = [
        [result for case in side.values() for run in case.values() for item in run for result in item.all_results]
        for side in (left, right)
    ]
    yardsticks = list(map(_yardsticks, results))
    aside = _not_judged(yardsticks, names)
    ignored = frozenset(aside)
    cases = {case: _sides(left.get(case, {}), right.get(case, {}), ignored) for case in left | right}
    if baseline is not None:
        cases = {case: sides for case, sides in cases.items() if sides[1].runs or sides[0].in_newest}
    known = {case: sides for case, sides in cases.items() if sides[0].conversations and sides[1].conversations}
    both = {case: sides for case, sides in known.items() if baseline is None or sides[0].passed[1] >= EVIDENCE}
    measures = observations({case: _measures(*sides) for case, sides in both.items()})
    drops = find_drops(measures)
    metrics = yardsticks[0].keys() | yardsticks[1].keys()
    changes = tuple(
        _case_change(case, *sides, drops, is_new=case in known.keys() - both.keys()) for case, sides in cases.items()
    )
    decision = decide(
        measures,
        drops,
        missing=any(change.status == "gone" and change.regressed for change in changes),
        newly_failing=sum(change.status == "newly_failing" for change in changes),
        deterministic=bool(both)
        and all(side.is_alike for sides in both.values() for side in sides)
        and min(len(before.runs) for before, _ in both.values()) >= DETERMINISTIC_RUNS,
        margin=margin,
    )
    pass_rate, *scores = _overall(both.values(), drops, ignored)
    sides = [[pair[index] for pair in cases.values()] for index in (0, 1)]
    before_excluded, after_excluded = (Counter(why for one in side for why in one.exclusions) for side in sides)
    return Comparison(
        *names,
        changes,
        tuple(scores),
        pass_rate,
        aside,
        sensitivity_of(measures, drops.overall.level, detect),
        decision,
        (not metrics or bool(metrics - ignored)) and (bool(known) or not (left and right)),
        (before_excluded, after_excluded),
        baseline,
    )


def _runs(turns: Iterable[TurnJson], results: ConversationResults) -> Iterator[list[RunConversation]]:
    """The conversations of each run, the newest first."""
    by_run = grouped((turn["run"], turn) for turn in turns)
    newest_first = sorted(by_run.items(), key=lambda run: max(turn["started_at"] for turn in run[1]), reverse=True)
    for name, own in newest_first or [("", [])]:
        of_run = {
            conversation: [result for result in found if result.get("run", name) == name]
            for conversation, found in results.items()
        }
        yield [*follow(own, results=of_run), *_before_the_first_turn(own, of_run)]


def _before_the_first_turn(turns: Iterable[TurnJson], results: ConversationResults) -> Iterator[RunConversation]:
    """The conversations of cases in which the simulated user was at fault before the first turn."""
    known = {turn["conversation_id"] for turn in turns}
    for name, found in results.items():
        for result in found if name not in known else ():
            if result["evaluator"] == SIMULATED_USER and result.get("case_id"):
                user = UserRecord.from_dict(result["details"])
                yield RunConversation(result["case_id"], name, result["case_id"], None, (), (), user)


_Runs: TypeAlias = dict[int, list[RunConversation]]
"""The conversations of a case by the number of their run, from 0, the newest."""


def _cases_of_several_agents(turns: Iterable[TurnJson]) -> set[str]:
    """The ids of cases of which several agents had conversations of their own."""
    agents = grouped((turn["case_id"], agent_of_conversation(turn)) for turn in turns if turn["case_id"] is not None)
    return {case_id for case_id, names in agents.items() if len({*names} - {None}) > 1}


def _by_case(runs: Iterable[Sequence[RunConversation]], of_several: Collection[str]) -> dict[str, _Runs]:
    """The cases `of_several` agents are one for each agent."""
    found: dict[str, _Runs] = {}
    for number, run in enumerate(runs):
        for one in run:
            agent = agent_of_conversation(one.executed[0]) if one.executed and one.case_id in of_several else None
            named = replace(one, prefix=f"{agent}: ") if agent else one
            found.setdefault(case_name(named), {}).setdefault(number, []).append(named)
    return found


def _sides(before: _Runs, after: _Runs, ignored: frozenset[str]) -> tuple[_Side, _Side]:
    """A case before and after. A failure of a metric that only one of them measured is neither new nor repaired. All
    metrics say whether a case of one run alone passed: it is compared with nothing."""
    ignored = ignored if before and after else frozenset()
    results = [
        [result for run in runs.values() for item in run for result in item.all_results] for runs in (before, after)
    ]
    turns = [turn for runs in (before, after) for run in runs.values() for item in run for turn in item.turns]
    lost = frozenset[str]()
    if all(results) and all(turn.turn is not None and turn.failure is None for turn in turns):
        measured, failed = (
            [{one.evaluator for one in own if is_so(one)} for own in results]
            for is_so in (lambda one: one.measured, lambda one: one.status is Status.FAILED)
        )
        lost = frozenset((failed[0] - measured[1]) | (failed[1] - measured[0]))
    return _Side(before, ignored | lost, scored=bool(lost)), _Side(after, ignored | lost, scored=bool(lost))


class _Side:
    """The conversations of a case before or after. Metrics in `ignored` decide neither failures nor passes. Where the
    case is `scored`, a conversation without scores shows nothing."""

    def __init__(self, runs: _Runs, ignored: frozenset[str], *, scored: bool = False) -> None:
        self.ignored = ignored
        self.scored = scored
        self.in_newest = 0 in runs
        self.exclusions: list[Exclusion] = []
        self.runs = [[item for item in run if self._shows(item)] for run in runs.values()]
        self.conversations = [item for run in self.runs for item in run]

    def _shows(self, conversation: RunConversation) -> bool:
        """Whether a conversation shows something about the agent. A missing turn is a failure."""
        why = conversation.exclusion(ignored=self.ignored)
        if why is None or why == "incomplete" or (why == "not_measured" and not self.scored):
            return True
        self.exclusions.append(why)
        return False

    @cached_property
    def scores(self) -> dict[Measure, list[list[float]]]:
        """For each measure and run one score per conversation, in their order. Where attempts may end early, of those
        that are made in any case: their number does not depend on outcomes."""
        runs = [list(map(self._measured, run[: _sure(run)])) for run in self.runs]
        return {
            measure: [[one[measure] for one in run if measure in one] for run in runs]
            for measure in dict.fromkeys(measure for run in runs for one in run for measure in one)
        }

    def pooled(self, measure: Measure) -> list[float]:
        """The scores of all runs together."""
        return [score for run in self.scores.get(measure, ()) for score in run]

    def _measured(self, conversation: RunConversation) -> dict[Measure, float]:
        """Whether it passed, and for each metric the mean over its turns."""
        results = conversation.all_results
        found = grouped((result.evaluator, result.score) for result in results if result.score is not None)
        passed = float(not any(self._failures(conversation)))
        return {None: passed, **{metric: fmean(scores) for metric, scores in found.items()}}

    @cached_property
    def passed(self) -> tuple[int, int]:
        """The numbers of passed and of all scored conversations."""
        return sum(not any(self._failures(one)) for one in self.conversations), len(self.conversations)

    @property
    def is_alike(self) -> bool:
        """Whether all conversations made the same calls, passed alike, and did so with known calls."""
        turns = [turn for conversation in self.conversations for turn in conversation.turns]
        if self.passed[0] not in (0, self.passed[1]) or any(turn.unseen for turn in turns):
            return False
        made = (
            canonical([[[call["name"], call["arguments"]] for call in turn["tool_calls"]] for turn in one.executed])
            for one in self.conversations
        )
        return len(set(made)) == 1

    @cached_property
    def failures(self) -> list[str]:
        """The failures in any of the conversations, without repetition."""
        return list(dict.fromkeys(name for one in self.conversations for name in self._failures(one)))

    def _failures(self, conversation: RunConversation) -> Iterator[str]:
        for turn in conversation.turns:
            if turn.turn is None:
                yield "missing_turn"
            elif turn.failure is not None:
                yield "failed_turn"
        for result in conversation.all_results:
            if result.bad and result.evaluator not in self.ignored:
                yield result.evaluator

    @property
    def turns(self) -> dict[int, list[ConversationTurn]]:
        """The executed turns by their place in the case."""
        turns = (turn for conversation in self.conversations for turn in conversation.turns)
        return grouped((turn.index, turn) for turn in turns if turn.turn is not None)


def _sure(attempts: Sequence[RunConversation]) -> int:
    """How many of these attempts at a case are made whatever their outcomes."""
    plans = [one.plan for one in attempts if one.plan is not None]
    if not plans or any(plan["enough"] is None for plan in plans):
        return len(attempts)
    planned, enough = plans[0]["planned"], plans[0]["enough"]
    return int(min(enough, planned - enough + 1))


def case_name(conversation: RunConversation) -> str:
    """What a comparison calls the case of a conversation: its name, or the first message in quotes."""
    return conversation.case_name or f"“{conversation.executed[0]['user_text'].strip()}”"


def _spoken(conversation: RunConversation) -> tuple[str, ...]:
    return tuple(turn["user_text"] for turn in conversation.executed)


def _with_missing_turns(conversation: RunConversation, spoken: Sequence[tuple[str, ...]]) -> RunConversation:
    """The conversation; if it has a case, and no simulated user ended it, with the missing turns of another
    that has the same beginning. `spoken` is sorted, so that a longer conversation follows its beginning."""
    if conversation.case_id is None or conversation.user is not None:
        return conversation
    came = _spoken(conversation)
    position = bisect_right(spoken, came)
    longer = spoken[position] if position < len(spoken) else ()
    if longer[: len(came)] != came:
        return conversation
    missing = (ConversationTurn(index, None) for index in range(len(came), len(longer)))
    return replace(conversation, turns=(*conversation.turns, *missing))


def _measures(before: _Side, after: _Side) -> dict[Measure, Sides]:
    """The measures tested for a case: whether its conversations pass, and each metric's scores."""
    shared = (before.scores.keys() & after.scores.keys()) - before.ignored
    return {measure: Sides(before.scores[measure], after.pooled(measure)) for measure in shared}


def _case_change(case: str, before: _Side, after: _Side, drops: Drops, *, is_new: bool) -> CaseChange:
    passed, excluded = (before.passed, after.passed), (len(before.exclusions), len(after.exclusions))
    if not before.runs or not after.runs:
        return CaseChange(case, "gone" if before.runs else "new", passed, excluded=excluded)
    if not before.conversations or not after.conversations:
        return CaseChange(case, "unscored", passed, excluded=excluded)
    change = CaseChange(
        case,
        "new",
        passed,
        tuple(_turn_changes(before.turns, after.turns)),
        tuple(_case_scores(case, before, after, drops)),
        tuple(name for name in after.failures if name not in before.failures),
        tuple(name for name in before.failures if name not in after.failures),
        excluded,
    )
    return change if is_new else replace(change, status=_status(change, (case, None) in drops.single.dropped))


def _status(change: CaseChange, dropped: bool) -> CaseStatus:
    (good, total), (good_now, total_now) = change.passed
    rate, rate_now = good / total, good_now / total_now
    if dropped or any(score.dropped for score in change.scores):
        return "worse"
    if rate == 1 > rate_now:
        return "newly_failing"
    if rate_now == 1 > rate:
        return "fixed"
    return "changed" if change.turns or change.scores or rate != rate_now else "same"


def _turn_changes(
    before: Mapping[int, Sequence[ConversationTurn]], after: Mapping[int, Sequence[ConversationTurn]]
) -> Iterable[TurnChange]:
    for index in sorted({*before, *after}):
        sides = before.get(index, []), after.get(index, [])
        if any(turns and all(turn.unseen for turn in turns) for turns in sides):
            continue  # calls that are not visible are not gone
        (calls, share), (calls_now, share_now) = map(_typical, sides)
        as_data = [
            ExpectedCall(call.name, call.arguments and quoted(call.arguments, call.default_arguments)) for call in calls
        ]
        changes = tuple(change for change in diff_calls(as_data, calls_now) if change.kind != "same")
        if changes:
            yield TurnChange(index + 1, changes, tuple(calls), tuple(calls_now), (share, share_now))


def _typical(turns: Sequence[ConversationTurn]) -> tuple[list[ToolCall], tuple[int, int]]:
    """The most frequent calls of the turns whose calls are known (the first in a tie), with those that wait, their
    number of turns, and the number of all those turns."""
    variants = [
        [
            *calls_in(turn.turn),
            *(
                ToolCall(f"{call['name']} (waits for approval)", call["arguments"])
                for call in turn.turn.get("approvals") or ()
            ),
        ]
        for turn in turns
        if turn.turn is not None and not turn.unseen
    ]
    if not variants:
        return [], (0, 0)
    keys = [canonical([[call.name, call.arguments] for call in calls]) for calls in variants]
    key, count = Counter(keys).most_common(1)[0]
    return variants[keys.index(key)], (count, len(variants))


def _case_scores(case: str, before: _Side, after: _Side, drops: Drops) -> Iterable[ScoreChange]:
    """The compared metrics whose means differ."""
    for metric in before.scores | after.scores:
        old, new = before.pooled(metric), after.pooled(metric)
        if metric is not None and metric not in before.ignored and _mean(old) != _mean(new):
            change = _score_change(metric, old, new, mean_interval(new, old), drops.single, (case, metric))
            yield change if min(len(old), len(new)) > 1 else replace(change, p_value=None)


def _overall(both: Collection[tuple[_Side, _Side]], drops: Drops, ignored: frozenset[str]) -> Iterator[ScoreChange]:
    """The pass rate, and every metric, over the cases of both runs: a pair of means for each case."""
    for measure in dict.fromkeys([None, *(measure for pair in both for side in pair for measure in side.scores)]):
        pairs = [(_mean(before.pooled(measure)), _mean(after.pooled(measure))) for before, after in both]
        old, new = (
            ([value for value in means if value is not None] for means in zip(*pairs, strict=True))
            if pairs
            else ([], [])
        )
        differences = [after - before for before, after in pairs if before is not None and after is not None]
        change = _score_change(measure or RATE, old, new, mean_interval(differences), drops.overall, measure)
        yield replace(change, interval=None) if measure in ignored else change


def _score_change(
    metric: str,
    old: Sequence[float],
    new: Sequence[float],
    interval: tuple[float, float] | None,
    family: DropTests[Any],
    key: Hashable,
) -> ScoreChange:
    tested = family.tests.get(key, UNTESTABLE)
    p_value = None if tested.least == 1 else tested.p_value  # 1: nothing varies
    return ScoreChange(metric, _mean(old), _mean(new), (len(old), len(new)), interval, p_value, key in family.dropped)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
