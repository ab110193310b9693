"""Matches the turns of a run, in their JSON form, with a suite's cases, and judges the outcomes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from a2a_tool_capture.models import Finding, Severity

from ..attempts import EXCLUSIONS, Attempts, AttemptStatus, Exclusion
from ..behavior_failures import BehaviorFailure
from ..gates import Outcome, Reason, not_executed
from ..grouping import grouped
from ..metrics.forbidden_calls import unproven_reason
from ..model import CALLS_UNSEEN, OVER_BUDGET, UNPROVEN, EvalResult, Status
from ..simulation.record import SIMULATED_USER, UserRecord, is_driven, record_in
from ..suite import Case, Expectation, GivenTurn, History, Suite
from ..suite.lint import unused_expectations
from ..suite.messages import is_kept, sent_message
from ..suite.model import Quarantine
from ..texts import counted
from ..tool_classes import is_shown
from ..verdict import Verdict, gate
from ..visibility import (
    AGENT_UNREACHABLE,
    HISTORY_LOST,
    TURN_SUCCEEDED,
    Calls,
    Visibility,
    turn_failure_of,
    visibility_in,
)

TurnJson: TypeAlias = Mapping[str, Any]
"""A turn as in /api/turns."""

ResultJson: TypeAlias = Mapping[str, Any]
"""A result as in `EvalResult.to_dict`."""

ConversationResults: TypeAlias = Mapping[str, Iterable[ResultJson]]
"""Evaluation results (`EvalResult.to_dict`) of whole conversations, by conversation id.

A result that names a `case_id` applies to the conversation's turns of that case only, and one with an `agent_name` to a
conversation with that one only (`agent_of_conversation`). A conversation without an id is named by the id of its first
turn."""


def turn_failure(turn: TurnJson) -> str | None:
    """How a turn failed, whatever its scores; None if it did not, or ended as its case expects."""
    said = next((result for result in turn["evaluations"] if result["evaluator"] == TURN_SUCCEEDED), None)
    if said is not None:
        return None if said["passed"] else said["reason"] or "the turn failed"  # without texts in a comparison
    failure = turn_failure_of(turn["state"], turn["response_text"], list(map(Finding.from_dict, turn["findings"])))
    if failure is not None:
        return failure.message
    if turn["status"] != "done":
        return f"the turn was not scored (status: {turn['status']})"
    return None


@dataclass(frozen=True)
class ConversationTurn:
    """A planned turn and its execution: `turn` is None if it was not executed.

    `index` counts the case's turns from 0; a turn beyond the plan, or without a case, has no `expect`.
    """

    index: int
    turn: TurnJson | None
    expect: Expectation | None = None

    @cached_property
    def results(self) -> tuple[EvalResult, ...]:
        """The results of evaluators, and that the turn ended as expected; empty without a turn. `failure` describes a
        failure of the turn itself."""
        found = () if self.turn is None else self.turn["evaluations"]
        return tuple(
            EvalResult.from_dict(result)
            for result in found
            if result["evaluator"] != TURN_SUCCEEDED or result["passed"]
        )

    @property
    def scored(self) -> bool:
        """Whether it was executed, and its scores are stored."""
        return self.turn is not None and self.turn["status"] == "done"

    @property
    def failure(self) -> str | None:
        """How the turn itself failed; None if it did not or was not executed."""
        return None if self.turn is None else turn_failure(self.turn)

    @property
    def has_error(self) -> bool:
        """Whether findings say that it failed, whatever the state in which it ended."""
        found = [] if self.turn is None else [Finding.from_dict(finding) for finding in self.turn["findings"]]
        return turn_failure_of(None, "", found) is not None

    @cached_property
    def unseen(self) -> Visibility | None:
        """Why its tool calls are unknown: then no call means nothing, and captured calls may not be all. None for a
        turn that is open."""
        found = None if self.turn is None or self.turn["ended_at"] is None else visibility_in(self.turn)
        return found if found is not None and found.calls is Calls.UNKNOWN else None


@dataclass(frozen=True, slots=True)
class RunConversation:
    """The turns of one conversation in order, and their case, if any.

    `label` is its name in reports: the case's id, with a number if the case has several, else `conversation_name`.
    `results` are those of the conversation as a whole.
    """

    label: str
    conversation_id: str
    case_id: str | None
    case: Case | None
    turns: tuple[ConversationTurn, ...]
    results: tuple[EvalResult, ...] = ()
    user: UserRecord | None = None
    """The simulated user, if one took part and ended the conversation."""
    prefix: str = ""
    """What the names of the conversation and of its case begin with, in a run that several suites judge by agents."""
    given: tuple[ConversationTurn, ...] = ()
    """The turns of its history, which are not scored."""

    @property
    def case_name(self) -> str | None:
        """What reports call its case, also where suites of several agents have equal ids; None without a case."""
        return None if self.case_id is None else self.prefix + self.case_id

    @property
    def executed(self) -> list[TurnJson]:
        return [turn.turn for turn in self.turns if turn.turn is not None]

    @property
    def sent(self) -> list[TurnJson]:
        """Those of the history, then those that count."""
        return [turn.turn for turn in (*self.given, *self.turns) if turn.turn is not None]

    @property
    def sent_after(self) -> list[tuple[TurnJson, Sequence[Mapping[str, Any]]]]:
        """Those that were sent, each with the calls that waited for approval before it."""
        return list(zip(self.sent, [(), *(turn.get("approvals") or () for turn in self.sent)], strict=False))

    @property
    def no_history(self) -> str | None:
        """Why its history could not be made, so that the turns after it were not sent, or show nothing; None if it
        could, or has none."""
        made = "its history could not be made"
        for turn in self.given:
            if turn.scored and turn.failure:
                return f"{made}: given turn {turn.index + 1}: {turn.failure}"
        user = self.given_user
        if user is not None and user.fault is not None and user.invalid:
            return f"{made}: the simulated user: {user.fault.message}"
        return next((f"{made}: {one['message']}" for one in self._findings if one["code"] == HISTORY_LOST), None)

    @property
    def given_user(self) -> UserRecord | None:
        """The simulated user of its history."""
        return record_in(turn.turn for turn in self.given if turn.turn)

    @property
    def history(self) -> History:
        """Its history as a case gives it."""
        given = tuple(
            GivenTurn(
                sent_message(
                    turn["user_text"],
                    turn.get("user_parts"),
                    asked if is_kept(turn.get("user_parts"), asked) else (),
                )
            )
            for turn, asked in self.sent_after[: len(self.sent) - len(self.executed)]
        )
        return History(turns=given)

    @property
    def _findings(self) -> list[Mapping[str, Any]]:
        return [finding for turn in self.sent for finding in turn["findings"]]

    @property
    def counts_all_agents(self) -> bool:
        """Whether the calls of agents that were asked count, so that those of its turns alone are not all."""
        return self.case is not None and self.case.depth == "all"

    @property
    def all_results(self) -> list[EvalResult]:
        """The results of its turns, then its own."""
        return [result for turn in self.turns for result in turn.results] + list(self.results)

    @property
    def invalid(self) -> bool:
        """Whether the simulated user cut it short by a fault: then it is not measured as a whole."""
        return self.user is not None and self.user.invalid

    @property
    def complete(self) -> bool:
        """Whether every planned turn was executed and ended, successfully or not, and the simulated user's model
        answered."""
        if self.user is not None and self.user.interrupted:
            return False
        return bool(self.executed) and all(
            turn.turn is not None and turn.turn["status"] != "open" for turn in self.turns
        )

    @property
    def unreachable(self) -> str | None:
        """Why the agent could not be reached any more; None if it could."""
        return next((one["message"] for one in self._findings if one["code"] == AGENT_UNREACHABLE), None)

    @property
    def cut_off(self) -> bool:
        """Whether a resumed run repeats it: it is not complete, or lies in what is not the agent's behavior."""
        return not self.complete or self.unreachable is not None or self.no_history is not None

    @property
    def plan(self) -> Mapping[str, Any] | None:
        """Which attempt at its case it is (`Turn.attempt`); None if that is not known."""
        return next((turn["attempt"] for turn in self.sent if turn.get("attempt")), None)

    def attempt(self, *, allow_unseen: bool = False) -> AttemptStatus:
        """What it shows as an attempt at its case. With `allow_unseen`, also by what could be scored without the calls
        that are unknown."""
        if self.exclusion(allow_unseen=allow_unseen) is not None:
            return "excluded"
        return "failed" if self._failed(()) else "passed"

    def exclusion(self, *, allow_unseen: bool = False, ignored: Collection[str] = ()) -> Exclusion | None:
        """Why, as an attempt, it shows nothing about the agent; None if it does. Metrics in `ignored` do not count."""
        if self.unreachable is not None:
            return "unreachable"
        if self.no_history is not None:
            return "history"
        if self.invalid:
            return "simulated_user"
        if self._failed(ignored):
            return None
        results = [result for result in self.all_results if result.evaluator not in ignored]
        if any(result.status is Status.ERRORED for result in results):
            return "evaluator_error"
        if not allow_unseen and any(result.label == CALLS_UNSEEN for result in results):
            return "calls_unseen"
        if any(result.label == OVER_BUDGET for result in results):
            return "over_budget"
        if not all(turn.scored for turn in self.turns if turn.turn is not None):
            return "not_scored"
        if not self.complete:
            return "incomplete"
        return None if any(result.measured for result in results) else "not_measured"

    def _failed(self, ignored: Collection[str]) -> bool:
        return any(turn.failure is not None and turn.scored for turn in self.turns) or any(
            result.status is Status.FAILED and result.evaluator not in ignored for result in self.all_results
        )

    def where(self, turn: ConversationTurn) -> str:
        """The name of a turn in reports."""
        return self.label if len(self.turns) == 1 else f"{self.label}, turn {turn.index + 1}"


def follow(
    turns: Iterable[TurnJson], suite: Suite | None = None, results: ConversationResults | None = None
) -> list[RunConversation]:
    """Match turns with the plan: the suite's cases in order, then other cases, then turns without a case.

    A case has at least as many conversations as attempts; missing conversations and planned turns are included without
    a `turn`, apart from attempts that are left out since enough passed or failed (`Attempts.decided`). Turns without a
    conversation id form conversations in the order of the plan.
    """
    turns, results = _with_controls(list(turns), {key: list(own) for key, own in (results or {}).items()})
    grouped = _group(turns, suite)
    conversations = []
    for case in suite.cases if suite else ():
        found = grouped.pop(case.id, [])
        found += _without_turns(case, found, results or {})
        missing: list[tuple[str, list[TurnJson]]] = [("", [])] * (case.conversations - len(found))
        held = _conversations(case.id, case, [*found, *missing], results or {})
        left_out = len(missing) if case.must_pass is not None and attempts_at(case, held).decided else 0
        conversations += held[: len(held) - left_out]
    without_case = grouped.pop(None, [])
    for case_id, found in grouped.items():
        conversations += _conversations(case_id, None, found, results or {})
    return conversations + _conversations(None, None, without_case, results or {})


def _with_controls(
    turns: list[TurnJson], results: dict[str, list[ResultJson]]
) -> tuple[list[TurnJson], dict[str, list[ResultJson]]]:
    """The turns and the results of conversations, in which prohibitions are proven by the calls of the other turns."""
    own_results = (turn.get("evaluations", ()) for turn in turns)  # the plan of a run has none
    found = (one for own in (*own_results, *results.values()) for one in own)
    if all(result.get("label") != UNPROVEN for result in found):
        return turns, results
    seen_in = {
        call["name"]: turn["case_id"] or turn["turn_id"] for turn in reversed(turns) for call in turn["tool_calls"]
    }
    return (
        [{**turn, "evaluations": [_proven(one, seen_in) for one in turn["evaluations"]]} for turn in turns],
        {key: [_proven(one, seen_in) for one in own] for key, own in results.items()},
    )


def _proven(result: ResultJson, seen_in: Mapping[str, str]) -> ResultJson:
    """`result` if it is not unproven; else with the score that it has where calls show that what was not seen would
    have been: 1, as no forbidden call was made, unless `unproven` states another."""
    if result.get("label") != UNPROVEN:
        return result
    details = result["details"]
    tools = {one["name"]: is_shown(one, seen_in) for one in details.get(UNPROVEN, ())}
    controls = {name: f"a call of {tool} was seen in {seen_in[tool]}" for name, tool in tools.items() if tool}
    if len(controls) < len(tools) or not tools:
        left = [one for one in details.get(UNPROVEN, ()) if tools[one["name"]] is None]
        return (
            {**result, "reason": unproven_reason(left), "details": {**details, UNPROVEN: left}} if controls else result
        )
    unproven, threshold = details[UNPROVEN][0], result["threshold"]
    score, reason = unproven.get("score", 1.0), unproven.get("reason", "No forbidden call was made")
    passed = None if threshold is None else score >= threshold
    return {
        **result,
        "score": score,
        "passed": passed,
        "status": str({None: Status.SCORED, True: Status.PASSED, False: Status.FAILED}[passed]),
        "label": None,
        "reason": f"{reason}: {'; '.join(dict.fromkeys(controls.values()))}.",
        "details": {"loaded" if "score" in unproven else "made": [], "controls": controls},
    }


def attempts_at(case: Case, conversations: Iterable[RunConversation]) -> Attempts:
    """The attempts at a case, given its conversations."""
    made = [one for one in conversations if one.sent or one.user]
    return attempts_of(case.id, made, case.conversations, case.must_pass)


def attempts_of(
    case_id: str,
    conversations: Sequence[RunConversation],
    planned: int,
    must_pass: int | None,
    *,
    allow_unseen: bool = False,
) -> Attempts:
    """These conversations as the attempts at a case, of which `planned` are to be made."""
    excluded = ((one.label, one.exclusion(allow_unseen=allow_unseen)) for one in conversations)
    return Attempts(
        case_id,
        {one.label: one.attempt(allow_unseen=allow_unseen) for one in conversations},
        planned,
        must_pass,
        {label: reason for label, reason in excluded if reason is not None},
        len(conversations) >= planned and any(one.plan and one.plan["enough"] is None for one in conversations),
    )


def excluded_text(counts: Mapping[Exclusion, int]) -> str:
    """`3 attempts excluded: 2 agent not reachable, 1 incomplete`; empty without any."""
    total = sum(counts.values())
    reasons = ", ".join(f"{count:,} {EXCLUSIONS[reason]}" for reason, count in counts.items() if count)
    return f"{counted(total, 'attempt')} excluded: {reasons}" if total else ""


def outcomes(conversations: Iterable[RunConversation], *, allow_unseen: bool = False) -> list[Outcome]:
    """The input of `verdict.gate`: an outcome for every turn, and one for each conversation with results or expected
    calls of its own. `allow_unseen`: see `RunConversation.attempt`."""
    found: list[Outcome] = []
    for conversation in conversations:
        begin = len(found)
        for turn in conversation.turns:
            where, case_id = conversation.where(turn), conversation.case_id
            if turn.turn is None:
                found.append(Outcome(where, conversation.label, None, case_id, no_history=conversation.no_history))
                continue
            found.append(
                Outcome(
                    where,
                    conversation.label,
                    turn.results,
                    case_id,
                    turn.turn["turn_id"],
                    turn.failure,
                    _captured(conversation, turn.expect, [turn.turn]),
                    [Severity(finding["severity"]) for finding in turn.turn["findings"]],
                    bool(turn.turn["tool_calls"]),
                    _unseen(turn.results),
                )
            )
        if whole := _whole(conversation):
            found.append(whole)
        if conversation.case is not None and (must_pass := conversation.case.must_pass) is not None:
            attempt = conversation.attempt(allow_unseen=allow_unseen)
            found[begin:] = [replace(one, attempt=attempt, must_pass=must_pass) for one in found[begin:]]
    return found


def _whole(conversation: RunConversation) -> Outcome | None:
    """The outcome of a conversation as a whole, if it has one. In a invalid one, the expected calls could not come."""
    label, results, case, invalid = conversation.label, conversation.results, conversation.case, conversation.invalid
    fault = conversation.user.fault if conversation.user else None
    captured = _captured(conversation, case.expect, conversation.executed) if case and not invalid else None
    if not results and captured is None and fault is None:
        return None
    return Outcome(
        label,
        label,
        results,
        conversation.case_id,
        captured=captured,
        unseen=_unseen(results),
        user_fault=fault,
        invalid=invalid,
    )


def _unseen(results: Iterable[EvalResult]) -> str | None:
    """The reason of the first result that was skipped because the calls are unknown."""
    return next((result.reason for result in results if result.label == CALLS_UNSEEN), None)


def _captured(conversation: RunConversation, expect: Expectation | None, executed: Sequence[TurnJson]) -> bool | None:
    """Whether any tool call was captured in these turns; None if none was expected, of these turns, or none was
    executed."""
    if expect is None or not expect.calls_expected or not executed or conversation.counts_all_agents:
        return None
    return any(turn["tool_calls"] for turn in executed)


def run_verdict(suite: Suite, conversations: Iterable[RunConversation], *, allow_no_capture: bool = False) -> Verdict:
    """Judge the conversations of a run by the gates of its suite; for `allow_no_capture`, see `verdict.gate`.

    A case whose quarantine ended before the run is a reason against it.
    """
    conversations = list(conversations)
    quarantine = quarantined(suite, conversations)
    verdict = gate(
        outcomes(conversations, allow_unseen=allow_no_capture or CALLS_UNSEEN in suite.tolerate),
        metrics=suite.metrics,
        gates=suite.gates,
        tolerate=suite.tolerate,
        run=suite.run_gates,
        allow_no_capture=allow_no_capture,
        unread=unused_expectations(suite),
        quarantined=[case_id for case_id, item in quarantine.items() if item.active],
    )
    ended = [(case_id, item) for case_id, item in quarantine.items() if not item.active]
    reasons = [Reason("quarantine_ended", item.sentence(case_id), case_id=case_id) for case_id, item in ended]
    return replace(verdict, reasons=(*verdict.reasons, *reasons))


@dataclass(frozen=True, slots=True)
class QuarantinedCase:
    """A case of a run in quarantine, and its attempts."""

    quarantine: Quarantine
    active: bool
    """Whether the quarantine had not ended when the run began."""
    attempts: Attempts

    def sentence(self, case_id: str) -> str:
        """For people: what the quarantine says, and how the case did."""
        until, reason, made = self.quarantine.until, self.quarantine.reason, self.attempts
        if not self.active:
            return f"{case_id}: its quarantine ended on {until} ({reason}): repair the case, or change the day"
        did = f"{made.passed} of {made.scored} scored attempts passed" if made.scored else "not scored in this run"
        return f"{case_id} is in quarantine until {until}, and does not count: {reason} ({did})"


def quarantined(suite: Suite, conversations: Sequence[RunConversation]) -> dict[str, QuarantinedCase]:
    """The cases in quarantine of which conversations were held, by their ids. The day is that of the first turn."""
    if not suite.quarantine:
        return {}
    held = grouped((one.case_id, one) for one in conversations if one.executed)
    day = min((turn["started_at"] for item in held.values() for one in item for turn in one.executed), default="")[:10]
    return {
        case.id: QuarantinedCase(item, day <= item.until.isoformat(), attempts_at(case, held[case.id]))
        for case in suite.cases
        if (item := suite.quarantine.get(case.id)) is not None and case.id in held
    }


def failures(conversations: Iterable[RunConversation]) -> list[BehaviorFailure]:
    """All failures of turns, whatever the gates, in order; turns from 1.

    The label is that of the result, else the name of the evaluator, else `failed_turn` or `missing_turn`. For a
    conversation as a whole the turn is 0. `behavior_failures.unique_errors` groups them.
    """
    found = []
    for conversation in conversations:
        for turn in conversation.turns:
            number = turn.index + 1
            if turn.turn is None:
                found.append(
                    BehaviorFailure(conversation.label, number, "missing_turn", not_executed(conversation.no_history))
                )
            elif turn.failure is not None:
                found.append(BehaviorFailure(conversation.label, number, "failed_turn", turn.failure))
            found += _failed_results(conversation.label, number, turn.results)
        found += _failed_results(conversation.label, 0, conversation.results)
    return found


def _failed_results(label: str, number: int, results: Iterable[EvalResult]) -> list[BehaviorFailure]:
    return [
        BehaviorFailure(label, number, result.label or result.evaluator, result.reason)
        for result in results
        if result.bad
    ]


_Group: TypeAlias = dict[str | None, list[tuple[str, list[TurnJson]]]]
"""By case id: conversation ids with their turns."""


def agent_of_conversation(turn: TurnJson) -> str | None:
    """With which of several agents the conversation of a turn is; None: with any, as `run` alone knows that it is one.

    Equal ids that clients gave conversations with different agents are not those of one.
    """
    return None if turn.get("attempt") else turn.get("agent_name")


def _group(turns: Iterable[TurnJson], suite: Suite | None) -> _Group:
    cases: dict[str | None, Case] = {case.id: case for case in suite.cases} if suite else {}
    grouped: _Group = {}
    known: dict[tuple[str | None, str, str | None], list[TurnJson]] = {}
    for turn in sorted(turns, key=lambda turn: turn["started_at"]):
        case_id, conversation_id = turn["case_id"], turn["conversation_id"]
        key = (case_id, conversation_id, agent_of_conversation(turn))
        case = cases.get(case_id)
        counting = [one for one in known.get(key, ()) if not is_given(case, one)]
        full = not conversation_id and len(counting) >= (len(case.turns) if case else 1)
        if key not in known or full:
            known[key] = []
            grouped.setdefault(case_id, []).append((conversation_id, known[key]))
        known[key].append(turn)
    return grouped


def _without_turns(
    case: Case, found: Sequence[tuple[str, list[TurnJson]]], results: ConversationResults
) -> list[tuple[str, list[TurnJson]]]:
    """The conversations in which the simulated user was at fault before the first turn, in place of missing ones."""
    known = {conversation_id for conversation_id, _ in found}
    invalid: list[tuple[str, list[TurnJson]]] = [
        (conversation_id, [])
        for conversation_id, own in results.items()
        if (case.simulate or case.given.simulate) and conversation_id not in known and _own(own, case.id, of_user=True)
    ]
    return invalid[: max(0, case.conversations - len(found))]


def _own(
    results: Iterable[ResultJson], case_id: str | None, agent: str | None = None, *, of_user: bool = False
) -> list[EvalResult]:
    """The results for turns of this case and agent: those of evaluators, or the record of the simulated user."""
    return [
        EvalResult.from_dict(result)
        for result in results
        if (result.get("case_id", case_id), result.get("agent_name", agent)) == (case_id, agent)
        and (result["evaluator"] == SIMULATED_USER) == of_user
    ]


def _conversations(
    case_id: str | None, case: Case | None, found: Sequence[tuple[str, list[TurnJson]]], results: ConversationResults
) -> list[RunConversation]:
    conversations = []
    for number, (conversation_id, turns) in enumerate(found, start=1):
        label = case_id or conversation_name(conversation_id or (turns[0]["turn_id"] if turns else ""), number)
        if case_id is not None and len(found) > 1:
            label = f"{label} #{number}"
        kept = results.get(conversation_id or (turns[0]["turn_id"] if turns else ""), ())
        before = ({**turn, "given": True} for turn in turns if is_given(case, turn))
        given = tuple(ConversationTurn(index, turn) for index, turn in enumerate(before))
        counting = [turn for turn in turns if not is_given(case, turn)]
        user = record_in(counting)
        if not counting and (records := _own(kept, case_id, of_user=True)):
            user = UserRecord.from_dict(records[0].details)
        placed = tuple(_in_order(case, counting, user))
        own = tuple(_own(kept, case_id, agent_of_conversation(turns[0]) if turns else None))
        conversations.append(RunConversation(label, conversation_id, case_id, case, placed, own, user, given=given))
    return conversations


def is_given(case: Case | None, turn: TurnJson) -> bool:
    """See `Case.is_given`; of a turn without a known case, whether `run` has sent it as history."""
    return bool(turn.get("given")) if case is None else case.is_given(turn)


_UNREADABLE = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}|.{41}", re.DOTALL)


def conversation_name(conversation_id: str, number: int) -> str:
    """What people call a conversation without a case: its id if that was made for people, else its `number`."""
    named = conversation_id and not _UNREADABLE.search(conversation_id)
    return conversation_id if named else f"conversation {number}"


def _in_order(case: Case | None, turns: Sequence[TurnJson], user: UserRecord | None) -> list[ConversationTurn]:
    if case is None:
        return [ConversationTurn(index, turn) for index, turn in enumerate(turns)]
    placed = []
    for earlier, turn in enumerate(turns):
        index = case.turn_index(turn["user_text"], earlier, turn.get("agent_name"))
        expect = case.turns[index].expect if index < len(case.turns) else None
        placed.append(ConversationTurn(index, turn, expect))
    came = {turn.index for turn in placed}
    if user is None or turns:
        placed += [
            ConversationTurn(index, None, planned.expect)
            for index, planned in enumerate(case.turns)
            if index not in came
        ]
    if case.simulate and user is None and (is_driven(turns) or len(turns) <= len(case.turns)):
        placed.append(ConversationTurn(max(len(turns), len(case.turns)), None))
    return sorted(placed, key=lambda turn: turn.index)


def verdict_of_suites(
    whole: Suite, conversations: Sequence[RunConversation], parts: Sequence[tuple[str, Verdict]]
) -> Verdict:
    """The verdict on the `conversations` of all suites: the reasons and gates of each, by the names of the suites.

    `whole` is what `combined` returns: the metrics count the results of all suites.
    """
    return Verdict(
        tuple(_named(reason, name) for name, verdict in parts for reason in verdict.reasons),
        tuple(_named(reason, name) for name, verdict in parts for reason in verdict.tolerated),
        run_verdict(whole, conversations).metrics,
        tuple(replace(check, label=f"{check.label} ({name})") for name, verdict in parts for check in verdict.gates),
    )


def _named(reason: Reason, suite: str) -> Reason:
    """With the name of the suite, where no place names it."""
    return reason if reason.where is not None else replace(reason, message=f"{suite}: {reason.message}")
