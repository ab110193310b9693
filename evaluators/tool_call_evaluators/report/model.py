"""The data of a report, shared by all its formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from ..agent_tree import AgentTurn
from ..attempts import NOT_THE_AGENTS, Attempts, Exclusion
from ..behavior_failures import unique_errors
from ..gates import USER_REASONS
from ..grouping import grouped
from ..judge.question import Usage, usage_text
from ..judged.base import band, judge_usage
from ..matching.arguments import ArgumentMatcher, Matcher
from ..matching.explain import CallChange, ChangeKind, diff_calls
from ..matching.placeholders import by_meaning, decided_in
from ..model import CALLS_UNSEEN, EvalResult, ExpectedCall, Status
from ..outcomes.calibration import corrected, corrected_text
from ..outcomes.comparison import Comparison
from ..outcomes.conversations import (
    ConversationResults,
    ConversationTurn,
    RunConversation,
    TurnJson,
    attempts_of,
    excluded_text,
    failures,
    follow,
    quarantined,
)
from ..simulation.record import UserRecord, users_text
from ..suite import EvaluatorSpec, Suite
from ..texts import counted, one_line, printable, score_text
from ..tool_classes import NoClassesError, ToolClasses, named
from ..visibility import NO_CAPTURE, Visibility, calls_in

ReasonJson: TypeAlias = Mapping[str, Any]
"""A reason as in `Verdict.to_dict`."""

GateJson: TypeAlias = Mapping[str, Any]
"""A gate as in `Verdict.to_dict`."""

TOLERATED_BY_GATE = "below threshold, tolerated by the gate"
GATE_NOT_MET = "below threshold, and the gate is not met"
TOLERATED_BY_SUITE = "tolerated by the suite"

_LONGEST_REASON = 500
MAX_LABELS = 5
"""The maximum number of labels that are counted by name."""

ConversationStatus = Literal["passed", "failed", "invalid", "unscored"]

RunOutcome = Literal["passed", "failed", "incomplete", "unjudged"]
OUTCOMES: Mapping[RunOutcome, tuple[str, str]] = {
    "passed": ("✓", "Passed"),
    "failed": ("✕", "Failed"),
    "incomplete": ("…", "Not complete"),
    "unjudged": ("–", "No suite"),
}
"""Of a run: the sign and the words."""


@dataclass(frozen=True)
class Report:
    """A run: its conversations matched with the plan, and the verdict (`Verdict.to_dict`).

    In a verdict, `passed` is None where no suite has judged the run, and `incomplete` says that it is not over."""

    run: str
    verdict: Mapping[str, Any]
    conversations: Sequence[RunConversation]
    suite: Suite | None = None
    merged_errors: Sequence[Mapping[str, Any]] | None = None
    """The distinct errors, where a judge has merged those that mean the same."""
    merging: Usage = field(default_factory=Usage)
    """The cost of that."""
    parts: Sequence[Report] = ()
    """The reports of each suite, in a run of several."""
    baseline: Comparison | None = None
    """The comparison with an earlier run."""
    trace_url: str = ""
    """The address of a trace for people, http or https, with `{trace_id}`; empty: trace ids are no links."""
    trees: Mapping[str, AgentTurn] | None = None
    """Who asked whom, by the id of the turn that asked first, where other agents were asked and their turns are in the
    store; None: it was not looked up."""
    _rules_by_case: dict[str | None, _Rules] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By the id of a case with its own evaluators; None: the suite's."""

    @property
    def passed(self) -> bool:
        return bool(self.verdict["passed"])

    @property
    def outcome(self) -> RunOutcome:
        if self.verdict.get("incomplete"):
            return "incomplete"
        return "unjudged" if self.verdict["passed"] is None else "passed" if self.passed else "failed"

    @cached_property
    def unique_errors(self) -> Sequence[Mapping[str, Any]]:
        """The distinct errors (`UniqueError.to_dict`)."""
        if self.merged_errors is not None:
            return self.merged_errors
        return [error.to_dict() for error in unique_errors(failures(self.conversations))]

    @property
    def reasons(self) -> Sequence[ReasonJson]:
        reasons: Sequence[ReasonJson] = self.verdict["reasons"]
        return reasons

    @property
    def gates(self) -> Sequence[GateJson]:
        """The limits of the suite with the actual values, those of the run first."""
        gates: Sequence[GateJson] = self.verdict.get("gates", ())
        return gates

    @property
    def title(self) -> str:
        """The name of the suite, else of the run."""
        return self.suite.name if self.suite else self.run

    @property
    def passed_text(self) -> str:
        """`3 of 4 (75%), 1 not scored`: the conversations in which everything passed, of those that were scored, and
        the others. Of a run that is not complete, of those that have come, and how many of the suite's are seen."""
        if self.outcome == "incomplete":
            come = [item for item in self.conversations if item.executed or item.invalid]
            so_far = replace(self, conversations=come, verdict={**self.verdict, "incomplete": False})
            seen, planned = (sum(item.case is not None for item in items) for items in (come, self.conversations))
            return f"{so_far.passed_text}; {seen:,} of {planned:,} planned ones seen"
        counts = self.counts
        judged = counts["passed"] + counts["failed"]
        others = {"below threshold": self.noted_count, "not scored": counts["unscored"], "invalid": counts["invalid"]}
        more = [f", {count:,} {words}" for words, count in others.items() if count]
        share = f" ({counts['passed'] / judged:.0%})" if judged else ""
        return f"{counts['passed']:,} of {judged:,}{share}{''.join(more)}"

    @cached_property
    def turns(self) -> list[TurnJson]:
        """The executed turns, conversation by conversation."""
        return [turn for item in self.conversations for turn in item.executed]

    @property
    def given_text(self) -> str:
        """`3 given turns, not scored`: those of histories; empty without any."""
        count = sum(len(item.given) for item in self.conversations)
        return f"{counted(count, 'given turn')}, not scored" if count else ""

    @cached_property
    def agents(self) -> list[str]:
        return sorted({turn["agent"] for turn in self.turns})

    @cached_property
    def agent_url(self) -> str:
        """What `run --agent` needs for the cases of these turns: the URL of the agent, or of the proxy with the agents
        that cases name. Empty if that is not known, or not one."""
        urls = {turn["agent"].removesuffix(f"/agents/{turn.get('agent_name')}") for turn in self.turns}
        names = {name for item in self.conversations if item.case and item.executed for name in item.case.agents}
        is_agent = not urls.isdisjoint(self.agents)
        return "" if len(urls) != 1 or (is_agent and names - {None}) else urls.pop()

    @cached_property
    def started_at(self) -> str | None:
        return min((turn["started_at"] for turn in self.turns), default=None)

    @cached_property
    def ended_at(self) -> str | None:
        return max((turn["ended_at"] for turn in self.turns if turn["ended_at"]), default=None)

    @cached_property
    def tool_call_count(self) -> int:
        """Those that the agents made themselves."""
        return sum(len(turn["tool_calls"]) for turn in self.turns)

    @cached_property
    def not_visible(self) -> list[Visibility]:
        """Of each turn whose tool calls are unknown, why; a failed turn has a reason of its own."""
        turns = (turn for item in self.conversations for turn in item.turns if not turn.failure)
        return [turn.unseen for turn in turns if turn.unseen]

    @property
    def could_be_allowed(self) -> bool:
        """Whether tool calls are unknown only where no source could show any (`no_capture`)."""
        return all(found.evidence == NO_CAPTURE for found in self.not_visible)

    @property
    def visibility_text(self) -> str:
        """That tool calls are not visible, and why unless the verdict says it; empty if they are visible."""
        if not self.not_visible:
            return ""
        text = f"tool calls are not visible in {len(self.not_visible)} of {counted(len(self.turns), 'turn')}"
        known = any(reason["code"] == CALLS_UNSEEN for reason in self.reasons)
        return text if known else f"{text}: {one_line(printable(self.not_visible[0].message), _LONGEST_REASON)}"

    @property
    def results(self) -> Iterator[EvalResult]:
        """Those of all turns and conversations."""
        return (result for item in self.conversations for result in item.all_results)

    @cached_property
    def usage(self) -> Usage:
        """The cost of the judges of these results; cached answers cost nothing."""
        return judge_usage(self.results) + self.merging

    @property
    def costs(self) -> dict[str, str]:
        """What judges, and simulated users, cost; those that took part."""
        costs = {"judge": usage_text(self.usage), "simulated users": users_text(self.users)}
        return {who: text for who, text in costs.items() if text}

    def mean_text(self, metric: Mapping[str, Any]) -> str:
        """The mean of a metric (as in the verdict), with the name of its band if it has grades from 1 to 5; for labels
        without scores the number of each, most frequent first."""
        results = self._measured.get(metric["metric"], [])
        if metric["mean"] is None and results:
            labels = Counter(result.label for result in results).most_common(MAX_LABELS + 1)
            texts = [f"{label} {count:,}" for label, count in labels[:MAX_LABELS]]
            return ", ".join([*texts, *("…" for _ in labels[MAX_LABELS:])])
        name = band(metric["mean"], results[0].scale) if results else None
        return score_text(metric["mean"], metric["scale"]) + (f" {name}" if name else "")

    @cached_property
    def _measured(self) -> dict[str, list[EvalResult]]:
        return grouped((result.evaluator, result) for result in self.results if result.measured)

    @cached_property
    def judges(self) -> dict[str, dict[str, Any]]:
        """What calibrations say about the judge of each judged metric: `{text, corrected}`.

        `corrected` is the pass rate corrected for the judge's errors (`agreement.Estimate`); None unless one
        calibration holds for all these results."""
        found: dict[str, list[tuple[Mapping[str, Any], str, bool]]] = {}
        for conversation in self.conversations:
            case = conversation.case_name or conversation.label
            for result in conversation.all_results:
                if said := judge_standing(result):
                    found.setdefault(result.evaluator, []).append((said, case, bool(result.passed)))
        return {metric: _judge(results) for metric, results in found.items()}

    @property
    def judge_lines(self) -> list[str]:
        """`helpfulness agrees with people in 84 %, 76 to 90, n = 120; corrected pass rate 71 %, 60 to 82`."""
        return [printable(f"{metric}: {judge['text']}") for metric, judge in self.judges.items()]

    @cached_property
    def users(self) -> list[UserRecord]:
        """The simulated users that ended their conversation."""
        users = (user for item in self.conversations for user in (item.given_user, item.user))
        return [user for user in users if user is not None]

    @cached_property
    def by_name(self) -> dict[str, tuple[int, RunConversation]]:
        """Each conversation and its place, from 0, by its label and by its id."""
        placed = list(enumerate(self.conversations))
        by_id = {item.conversation_id: (place, item) for place, item in placed if item.conversation_id}
        return {item.label: (place, item) for place, item in placed} | by_id

    @cached_property
    def run_reasons(self) -> list[ReasonJson]:
        """Reasons that concern the run and not one conversation."""
        return [reason for reason in self.reasons if reason["where"] not in self._places]

    def reasons_of(self, conversation: RunConversation) -> list[ReasonJson]:
        """Why this conversation did not pass, in the order of the verdict."""
        return self._reasons_by_label.get(conversation.label, [])

    def status(self, conversation: RunConversation) -> ConversationStatus:
        """Failed if a reason names it, or if something in it failed that the verdict tolerates (`notes`); invalid if it
        has only a fault of the simulated user; unscored if it has no measured result, or shows nothing about the agent,
        whatever reasons name it."""
        if self.exclusion(conversation) in NOT_THE_AGENTS:
            return "unscored"
        reasons = self.reasons_of(conversation)
        if any(reason["code"] not in USER_REASONS for reason in reasons):
            return "failed"
        if reasons or conversation.invalid:
            return "invalid"
        if self.notes(conversation):
            return "failed"
        return "passed" if any(result.measured for result in conversation.all_results) else "unscored"

    def note(self, conversation: RunConversation, turn: ConversationTurn | None, result: EvalResult) -> str:
        """How the verdict treats a result that failed or errored without a reason of its own; "" for any other.

        `turn` is None for a result of the whole conversation.
        """
        if part := self.part_by_label.get(conversation.label):
            return part.note(conversation, turn, result)
        if not result.bad:
            return ""
        places = {conversation.label} if turn is None else {conversation.label, conversation.where(turn)}
        if any((result.evaluator, place) in self._named for place in places):
            return ""
        if any((result.evaluator, place) in self._tolerated for place in places):
            return TOLERATED_BY_SUITE
        if result.status is Status.ERRORED:
            return TOLERATED_BY_SUITE
        return GATE_NOT_MET if result.evaluator in self._missed or None in self._missed else TOLERATED_BY_GATE

    def notes(self, conversation: RunConversation) -> list[str]:
        """How the verdict treats what failed in a conversation that no reason names and that shows something about the
        agent, in the words of `note`; each once."""
        named = bool(self.reasons_of(conversation)) or conversation.invalid or not conversation.executed
        unscored = self.exclusion(conversation) in NOT_THE_AGENTS
        return [] if named or unscored else self._notes_by_label[conversation.label]

    @cached_property
    def noted_count(self) -> int:
        """The number of conversations that failed and that no reason names."""
        return sum(bool(self.notes(item)) for item in self.conversations)

    @cached_property
    def counts(self) -> dict[ConversationStatus, int]:
        """The number of conversations of each status."""
        counts: dict[ConversationStatus, int] = {"passed": 0, "failed": 0, "invalid": 0, "unscored": 0}
        for conversation in self.conversations:
            counts[self.status(conversation)] += 1
        return counts

    @cached_property
    def attempts(self) -> dict[str, Attempts]:
        """The attempts at each case, by its name, as the verdict counts them."""
        if self.parts:
            return {case: item for part in self.parts for case, item in part.attempts.items()}
        allow_unseen = any(reason["code"] == CALLS_UNSEEN for reason in self.verdict["tolerated"])
        by_case = grouped((item.case_name, item) for item in self.conversations if item.case_name is not None)
        found = {}
        for name, conversations in by_case.items():
            case = conversations[0].case
            planned = max(case.conversations if case else 1, len(conversations))
            must_pass = case.must_pass if case else None
            found[name] = attempts_of(name, conversations, planned, must_pass, allow_unseen=allow_unseen)
        return found

    @property
    def exclusions(self) -> Mapping[Exclusion, int]:
        """The number of attempts that show nothing about the agent, by the reason."""
        return Counter(reason for item in self.attempts.values() for reason in item.exclusions.values())

    def exclusion(self, conversation: RunConversation) -> Exclusion | None:
        """Why a conversation is no attempt at its case that counts; None if it counts, or has no case."""
        attempts = self.attempts.get(conversation.case_name or "")
        return None if attempts is None else attempts.exclusions.get(conversation.label)

    @property
    def excluded_text(self) -> str:
        """The attempts that show nothing about the agent, and why; empty without any."""
        return excluded_text(self.exclusions)

    @cached_property
    def quarantined(self) -> dict[str, str]:
        """A sentence for each case in quarantine, by its name."""
        if self.parts:
            return {case: sentence for part in self.parts for case, sentence in part.quarantined.items()}
        found = quarantined(self.suite, self.conversations) if self.suite else {}
        prefix = self.conversations[0].prefix if self.conversations else ""
        names = {case_id: prefix + case_id for case_id in found}
        return {names[case_id]: item.sentence(names[case_id]) for case_id, item in found.items() if item.active}

    @property
    def count_texts(self) -> list[str]:
        """The number of conversations of each outcome that occurred."""
        counts, noted = self.counts, self.noted_count
        found = {
            f"failed ({noted:,} of them below threshold)" if noted else "failed": counts["failed"],
            "invalidated by the simulated user": counts["invalid"],
            "not scored": counts["unscored"],
            "passed": counts["passed"],
        }
        return [f"{count:,} {outcome}" for outcome, count in found.items() if count]

    def changes(self, conversation: RunConversation, turn: ConversationTurn) -> list[CallChange] | None:
        """The expected calls of a turn (left) compared with the actual ones (right); None without an expectation, or
        if no actual one is known, or if the calls of other agents count. If some are unknown, so is an expected call
        that none of the others is."""
        if turn.turn is None or turn.expect is None or turn.expect.tool_calls is None or conversation.counts_all_agents:
            return None
        if turn.unseen and not turn.turn["tool_calls"]:
            return None
        found = _changes_in(turn.expect.tool_calls, [turn.turn], self._rules(conversation), conversation)
        missing: ChangeKind = "unknown" if turn.unseen else "removed"
        return [replace(one, kind=missing) if one.kind == "removed" else one for one in found]

    def changes_of_all(self, conversation: RunConversation) -> list[CallChange] | None:
        """The expected calls of a whole conversation compared with those of all its turns in order; None as for
        `changes`."""
        case = conversation.case
        if case is None or case.expect.tool_calls is None or conversation.counts_all_agents:
            return None
        if any(turn.unseen for turn in conversation.turns):
            return None
        return _changes_in(case.expect.tool_calls, conversation.executed, self._rules(conversation), conversation)

    def differences(
        self, conversation: RunConversation, turn: ConversationTurn | None = None
    ) -> list[tuple[CallChange, str]]:
        """The changes that are differences, of a turn or else of the whole conversation, with the name of the tool."""
        if turn is None:
            changes, expect = self.changes_of_all(conversation), conversation.case and conversation.case.expect
            executed = conversation.executed
        else:
            changes, expect = self.changes(conversation, turn), turn.expect
            executed = [turn.turn] if turn.turn else []
        made = [call["name"] for item in executed for call in item["tool_calls"]]
        expected = (expect.tool_calls if expect else None) or ()
        return [
            (change, made[change.right] if change.right is not None else expected[change.left or 0].name)
            for change in changes or ()
            if change.kind not in ("same", "ignored")
        ]

    def _rules(self, conversation: RunConversation) -> _Rules:
        """How the first evaluator that compares calls compares them."""
        if part := self.part_by_label.get(conversation.label):
            return part._rules(conversation)
        case = conversation.case
        key, specs = None, self.suite.evaluators if self.suite else ()
        if case is not None and case.evaluators is not None:
            key, specs = case.id, case.evaluators
        if key not in self._rules_by_case:
            self._rules_by_case[key] = _first_rules(specs, case.tool_classes if case else None)
        return self._rules_by_case[key]

    @cached_property
    def part_by_label(self) -> dict[str, Report]:
        """In a run of several suites: the report of a conversation's suite, by the name of the conversation."""
        return {item.label: part for part in self.parts for item in part.conversations}

    @cached_property
    def _places(self) -> dict[str, str]:
        """The label of the conversation by the place that a reason names."""
        return {
            place: item.label for item in self.conversations for place in (item.label, *map(item.where, item.turns))
        }

    @cached_property
    def _named(self) -> set[tuple[str | None, str | None]]:
        """The metrics that reasons name, each with its place."""
        return {(reason["metric"], reason["where"]) for reason in self.reasons}

    @cached_property
    def _tolerated(self) -> set[tuple[str | None, str | None]]:
        """The metrics that tolerated reasons name, each with its place."""
        return {(reason["metric"], reason["where"]) for reason in self.verdict["tolerated"]}

    @cached_property
    def _missed(self) -> set[str | None]:
        """The metrics whose gate is not met; None: the gate on the pass rate of the run."""
        on_results = (check for check in self.gates if check["metric"] or check["gate"] == "pass_rate")
        return {check["metric"] for check in on_results if check["passed"] is False}

    @cached_property
    def _notes_by_label(self) -> dict[str, list[str]]:
        tolerated = [reason for reason in self.verdict["tolerated"] if reason["code"] not in USER_REASONS]
        at_places = {self._places.get(reason["where"]) for reason in tolerated}
        found = {}
        for item in self.conversations:
            notes = [self.note(item, None, result) for result in item.results]
            notes += [self.note(item, turn, result) for turn in item.turns for result in turn.results]
            notes += [TOLERATED_BY_SUITE] if item.label in at_places else []
            found[item.label] = [note for note in dict.fromkeys(notes) if note]
        return found

    @cached_property
    def _reasons_by_label(self) -> dict[str, list[ReasonJson]]:
        reasons = [reason for reason in self.reasons if reason["where"] in self._places]
        return grouped((self._places[reason["where"]], reason) for reason in reasons)


class _Rules(NamedTuple):
    """How calls compare with the expected ones, and which tools' calls do not count."""

    matcher: Matcher = ArgumentMatcher()
    ignored: Callable[[str], bool] | None = None


def _first_rules(specs: Iterable[EvaluatorSpec], classes: ToolClasses | None) -> _Rules:
    for evaluator in (spec.build() for spec in specs):
        if "expected_tool_calls" not in (*evaluator.needs, evaluator.criterion):
            continue
        names = getattr(evaluator, "ignored_tools", ())
        try:
            ignored = named(names, classes) if names else None
        except NoClassesError:
            ignored = None
        matcher: Matcher | None = getattr(evaluator, "matcher", None)
        if matcher is None:
            matcher = ArgumentMatcher("subset" if getattr(evaluator, "subset", False) else "exact")
        return _Rules(matcher, ignored)
    return _Rules()


def build_report(
    run: str,
    turns: Iterable[TurnJson],
    verdict: Mapping[str, Any],
    *,
    suite: Suite | None = None,
    conversation_results: ConversationResults | None = None,
) -> Report:
    """The report on a run of turns as in /api/turns, with the `verdict` on it (`Verdict.to_dict`): what the functions
    of this package write."""
    return Report(run, verdict, follow(turns, suite, conversation_results), suite)


def _changes_in(
    expected: Sequence[ExpectedCall], turns: Iterable[TurnJson], rules: _Rules, conversation: RunConversation
) -> list[CallChange]:
    """The expected calls compared with those of `turns` of the conversation. Shortened results are not compared."""
    turns = list(turns)
    made = [call for turn in turns for call in calls_in(turn)]
    if any("shortened" in call for turn in turns for call in turn["tool_calls"]):
        expected = [ExpectedCall(call.name, call.arguments) for call in expected]
    with by_meaning(decided_in(result.details for result in conversation.all_results)):
        changes = diff_calls(expected, made, rules.matcher)
    if (ignored := rules.ignored) is None:
        return changes
    tools = [expected[one.left or 0].name if one.right is None else made[one.right].name for one in changes]
    return [
        replace(one, kind="ignored", differences=()) if one.kind != "same" and ignored(tool) else one
        for one, tool in zip(changes, tools, strict=True)
    ]


def duration(turn: TurnJson) -> float | None:
    """Seconds from the turn's start to its end; None if it did not end."""
    return seconds_between(turn["started_at"], turn["ended_at"])


def judge_standing(result: EvalResult) -> Mapping[str, Any] | None:
    """What calibrations say about the judge of a result (`calibration.standing`), as the store has written it there."""
    judge = result.details.get("judge")
    found = judge.get("calibration") if isinstance(judge, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _judge(results: Sequence[tuple[Mapping[str, Any], str, bool]]) -> dict[str, Any]:
    texts = list(dict.fromkeys(str(said["text"]) for said, _, _ in results))
    confusion = results[0][0].get("confusion")
    if len(texts) > 1 or confusion is None:
        return {"text": "; ".join(texts[:MAX_LABELS]), "corrected": None}
    of_cases = grouped((case, passed) for _, case, passed in results)
    made = corrected(of_cases, confusion)
    return {"text": f"{texts[0]}; {corrected_text(made)}", "corrected": made}


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from one RFC 3339 time to another, at least 0; None if one is missing."""
    if start is None or end is None:
        return None
    return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
