"""Creates a suite from the turns of an agent that is known to be good.

Argument values that differ between runs become placeholders. A value recorded several times is volatile if it changed;
one recorded once if it looks generated (a UUID, a time near the recording, a long random token), unless it is in a user
message.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

from a2a_tool_capture.canonical import with_whole_numbers
from a2a_tool_capture.models import ToolCall

from ..matching.arguments import ArgumentMatcher, call_matches
from ..matching.call_failure import has_failed
from ..matching.placeholders import (
    MAX_PATTERN_LENGTH,
    MAX_TEXT_LENGTH,
    by_meaning,
    decided_in,
    equal_values,
    is_placeholder,
)
from ..model import ExpectedCall
from ..suite import Case, CaseTurn, EvaluatorSpec, Expectation, History, Suite
from ..suite.lint import READ_BY, may_read
from ..suite.messages import is_kept, sent_message
from ..suite.writing import free_id, printable_id, slug, suite_text
from ..visibility import Calls, calls_in, visibility_in
from .conversations import ConversationTurn, RunConversation, TurnJson, follow

_COMPLETED, _REJECTED = "TASK_STATE_COMPLETED", "TASK_STATE_REJECTED"

ANY: dict[str, Any] = {"$any": True}

_UUID = r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"
_DAY = r"\d{4}-\d\d-\d\d"
_HEX = r"[0-9a-fA-F]{16,}"
_TOKEN = r"[0-9A-Za-z]{16,}"  # noqa: S105  # a pattern
_GENERATED = re.compile(rf"(?<![0-9A-Za-z])(?:(?P<uuid>{_UUID})|(?P<time>{_TIME})|(?P<token>{_TOKEN}))(?![0-9A-Za-z])")
_NEAR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a value: the user messages up to then (`said`), and the time it was `recorded`."""

    said: str
    recorded: datetime


def expected_value(seen: Sequence[Any], context: Context) -> Any:
    """The expectation for the recorded values `seen`; the literal value if possible."""
    first = seen[0]
    if all(isinstance(value, Mapping) for value in seen):
        if is_placeholder(first) and all(equal_values(first, value) for value in seen):
            return {"$literal": first}  # data, even if it looks like a placeholder
        if is_placeholder(first) or any(value.keys() != first.keys() for value in seen):
            return {"$type": "object"}
        return {key: expected_value([value[key] for value in seen], context) for key in first}
    if all(isinstance(value, list) for value in seen):
        if all(len(value) == len(first) for value in seen):
            return [expected_value(list(items), context) for items in zip(*seen, strict=True)]
        return {"$type": "array"}
    if all(equal_values(first, value) for value in seen[1:]):
        return first if len(seen) > 1 else _guessed(first, context)
    return _common(seen)


def _guessed(value: Any, context: Context) -> Any:
    """For a value recorded once."""
    if isinstance(value, str):
        if not value or value.casefold() in context.said.casefold():
            return value
        return _pattern(value, context) or value
    if isinstance(value, int | float) and not isinstance(value, bool) and _is_moment(value, context.recorded):
        return {"$type": "number"}
    return value


def _pattern(text: str, context: Context) -> dict[str, Any] | None:
    """A regular expression for a string with generated parts, with the rest unchanged."""
    if len(text) > MAX_TEXT_LENGTH:
        return None
    if re.fullmatch(_DAY, text):
        return {"$regex": _DAY} if _is_recent(text, context.recorded) else None
    out, position = "", 0
    for match in _GENERATED.finditer(text):
        pattern = _of_match(match, context)
        if pattern is not None:
            out += _escaped(text[position : match.start()]) + pattern
            position = match.end()
    if not position:
        return None
    out += _escaped(text[position:])
    return {"$regex": out} if len(out) <= MAX_PATTERN_LENGTH else {"$type": "string"}


def _of_match(match: re.Match[str], context: Context) -> str | None:
    found = match[0]
    if found.casefold() in context.said.casefold():
        return None
    if match["uuid"]:
        return _UUID
    if match["time"]:
        return _TIME if _is_recent(found[:10], context.recorded) else None
    digits = sum(character.isdigit() for character in found)
    if not 3 <= digits < len(found):  # a word, or a number such as an account
        return None
    return _HEX if re.fullmatch(_HEX, found) else _TOKEN


def _common(seen: Sequence[Any]) -> dict[str, Any]:
    """For values that changed: their common type or value."""
    if all(isinstance(value, str) for value in seen):
        for pattern in (_UUID, _TIME, _DAY, _HEX, _TOKEN):
            if all(re.fullmatch(pattern, value) for value in seen):
                return {"$regex": pattern}
        return {"$type": "string"}
    if all(isinstance(value, bool) for value in seen):
        return {"$type": "boolean"}
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in seen):
        return {"$type": "number"}
    return ANY


def _is_recent(day: str, recorded: datetime) -> bool:
    """Whether a date is at most one day from the recording; others are intended, not read from a clock."""
    try:
        return abs(date.fromisoformat(day) - recorded.date()) <= _NEAR
    except ValueError:
        return False


def _is_moment(number: float, recorded: datetime) -> bool:
    """Whether a number is a time near the recording, in s, ms or µs since the epoch."""
    return any(
        abs(number - recorded.timestamp() * unit) <= _NEAR.total_seconds() * unit for unit in (1, 1_000, 1_000_000)
    )


def _escaped(text: str) -> str:
    """`text` as a regular expression, escaped only where necessary."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text)


EXPECTED_CALLS = EvaluatorSpec("tool_trajectory", {"mode": "in_order"})
WORKING_TOOLS = EvaluatorSpec("tool_error")
APPROVAL = EvaluatorSpec("approval")
"""The evaluators of a recorded suite; cases with a failed tool call omit the second, and the third is only in suites in
which a call waits for approval."""


def record_suite(turns: Iterable[TurnJson], name: str = "recorded", known: Suite | None = None) -> str:
    """An editable suite file that expects the tool calls of these turns (as in /api/turns).

    Conversations of the same case (or without a case) with the same user messages become one case, which expects their
    most frequent calls. Values that changed between conversations, or look generated, become placeholders.
    Conversations that failed, have unknown tool calls or a message that was not kept are omitted; comments state how
    many. A state other than completed in which a turn ended is expected, too; instead of it the call that waits for
    approval, where the question names one alone. A failed tool call is expected
    behaviour: its case omits `tool_error`. If the turns are those of several agents, cases name theirs. The same turns
    always give the same text, which `load_suite` reads.

    Of the suite `known` everything stays but the expected calls of the cases that were recorded, where they do not
    match; where none of a case's own evaluators reads them, it stays without. Without it, cases are in the order of
    their ids, then conversations without a case by time.
    """
    earlier = {case.id: case for case in (known.cases if known else ())}
    scripts = {name: tuple(turn.user.strip() for turn in case.turns) for name, case in earlier.items()}
    turns = list(turns)
    names_agents = len({turn.get("agent_name") for turn in turns}) > 1
    groups: dict[tuple[str | None, tuple[str, ...], tuple[str | None, ...], History], list[RunConversation]] = {}
    left_out: Counter[str] = Counter()
    for conversation in sorted(follow(turns), key=_order):
        said = tuple(turn["user_text"].strip() for turn in conversation.executed)
        if problem := recording_problem(conversation):
            left_out[problem] += 1
        elif said != scripts.get(conversation.case_id or "", said):
            left_out["conversations with other messages than their case"] += 1
        else:
            agents = tuple(turn.get("agent_name") for turn in conversation.executed) if names_agents else ()
            groups.setdefault((conversation.case_id, said, agents, conversation.history), []).append(conversation)
    ids: set[str] = set()
    with by_meaning(decided_in(result.get("details", {}) for turn in turns for result in turn["evaluations"])):
        recorded = [_case(group, ids, key[2], earlier.get(key[0] or "")) for key, group in groups.items()]
    cases = tuple(case for case, _ in recorded)
    working = [WORKING_TOOLS] if not cases or not all(case.evaluators for case in cases) else []
    suite = Suite(name=name, evaluators=(EXPECTED_CALLS, *working, *_asking(cases)), cases=cases)
    if known is not None:
        suite = _renewed(known, {case.id: case for case in cases})
    comments = ["Recorded. The suite expects what the agent did: check that this was correct before relying on it."]
    comments += [f"Left out, {reason}: {count}." for reason, count in sorted(left_out.items())]
    return suite_text(suite, comments, {case.id: comments for case, comments in recorded})


def record_case(
    turns: Iterable[TurnJson], taken: Iterable[str] = (), case_id: str | None = None
) -> tuple[Case, tuple[str, ...]]:
    """The case that `record_suite` makes of the turns of one conversation, whatever their cases are, and its comments.

    Its id is `case_id`, else the first words of the user; with a number, if it is among the ids in `taken`. Raises
    ValueError where nothing is recorded of such conversations; the message says why.
    """
    (conversation,) = follow({**turn, "case_id": case_id} for turn in turns)
    if problem := recording_problem(conversation):
        raise ValueError(f"no case is made of {problem}")
    agents = tuple(turn.get("agent_name") for turn in conversation.executed)
    return _case([conversation], set(taken), agents if len({*agents}) > 1 else ())


def recording_problem(conversation: RunConversation) -> str | None:
    """What kind of conversations, that show no behaviour to expect, it is one of; None if it shows one."""
    if conversation.invalid:
        return "conversations invalidated by the simulated user"
    if any(turn.failure and not _refused(turn) for turn in conversation.turns):
        return "failed conversations"
    if conversation.given and not conversation.executed:
        return "conversations whose history could not be made"
    if not all(
        turn["user_text"].strip() and is_kept(turn.get("user_parts"), asked) for turn, asked in conversation.sent_after
    ):
        return "conversations with a message that a suite cannot send: empty, not kept, or for some waiting calls only"
    for turn in conversation.executed:
        if visibility_in(turn).calls is Calls.UNKNOWN:
            return "conversations with unknown tool calls"
    return None


def _refused(turn: ConversationTurn) -> bool:
    """Whether the agent rejected the message, which may be right, and nothing else is wrong with the turn."""
    return turn.scored and turn.turn is not None and turn.turn["state"] == _REJECTED and not turn.has_error


def _case(
    group: Sequence[RunConversation], ids: set[str], agents: Sequence[str | None], known: Case | None = None
) -> tuple[Case, tuple[str, ...]]:
    """One case from its repetitions, and its comments. `ids` holds the used ids, `agents` who had each turn, where
    cases name agents. Expected calls of the `known` case stay where the recorded ones match them."""
    agent = agents[0] if agents else None
    repetitions = [conversation.executed for conversation in group]
    turns, comments = [], []
    given = group[0].history
    said = "".join(f"\n{turn.user}" for turn in given.turns)
    for index, (first, answered) in enumerate(group[0].sent_after[len(given.turns) :]):
        said += f"\n{first['user_text']}"
        of_turn = [turns[index] for turns in repetitions]
        typical = [of_turn[i] for i in typical_turns([[call["name"] for call in one["tool_calls"]] for one in of_turn])]
        if len(typical) < len(group):
            comments.append(f"turn {index + 1}: {len(typical)} of {len(group)} repetitions made these calls")
        context = Context(said, datetime.fromisoformat(first["started_at"]))
        own = agents[index] if agents and agents[index] != agent else None
        waiting = [list(map(ToolCall.from_dict, turn.get("approvals") or ())) for turn in typical]
        asked = {tuple(call.name for call in one) for one in waiting}
        approval = _expected(waiting, context)[0] if len(asked) == len(waiting[0]) == 1 else None
        if approval is None and any(asked):
            comments.append(f"turn {index + 1}: more than one call waits for approval, so only the state is expected")
        expect = Expectation(
            tool_calls=_expected(
                list(map(calls_in, typical)), context, known.turns[index].expect.tool_calls if known else None
            ),
            approval=approval,
            state=None if approval else _ends(typical),
        )
        turns.append(CaseTurn(sent_message(first["user_text"], first.get("user_parts"), answered), expect, own))
    failed = {
        call["name"]: None for turns in repetitions for turn in turns for call in turn["tool_calls"] if has_failed(call)
    }
    if failed:
        comments.append(f"without tool_error, as these tools failed: {', '.join(failed)}")
    case_id = free_id(printable_id(group[0].case_id or (slug(repetitions[0][0]["user_text"]) or "case")), ids)
    case = Case(id=case_id, agent=agent, given=given, turns=tuple(turns))
    case = replace(case, evaluators=(EXPECTED_CALLS, *_asking([case]))) if failed else case
    times = (f"recorded {len(group)} times",) if len(group) > 1 else ()
    return case, (*times, *comments)


def _asking(cases: Iterable[Case]) -> list[EvaluatorSpec]:
    """The evaluator of calls that wait for approval, for cases without own evaluators that expect some."""
    expected = [turn.expect.approval for case in cases if case.evaluators is None for turn in case.turns]
    return [APPROVAL] if any(expected) else []


def _order(conversation: RunConversation) -> tuple[bool, str, str, str]:
    """Not by time where there are ids: a run holds several conversations at a time."""
    first = conversation.sent[0]
    return not conversation.case_id, conversation.case_id or "", first["started_at"], first["turn_id"]


def _renewed(suite: Suite, recorded: dict[str, Case]) -> Suite:
    """`suite` with the expected calls of the `recorded` cases, and with those that it does not have."""
    cases = []
    for case in suite.cases:
        new = recorded.pop(case.id, None)
        if new and (case.evaluators is None or may_read("tool_calls", suite.build_evaluators("turn", case))):
            pairs = zip(case.turns, new.turns, strict=True)
            turns = (replace(old, expect=replace(old.expect, tool_calls=own.expect.tool_calls)) for old, own in pairs)
            case = replace(case, turns=tuple(turns))
        if new and new.evaluators:
            evaluators = suite.evaluators if case.evaluators is None else case.evaluators
            case = replace(case, evaluators=tuple(spec for spec in evaluators if spec.name != WORKING_TOOLS.name))
        cases.append(case)
    names = {spec.name for spec in suite.evaluators}
    expecting = [] if names.intersection(READ_BY["tool_calls"]) else [EXPECTED_CALLS]
    asking = [] if APPROVAL.name in names else _asking(recorded.values())
    return replace(suite, cases=(*cases, *recorded.values()), evaluators=(*suite.evaluators, *expecting, *asking))


def typical_turns(shapes: Sequence[Sequence[str]]) -> list[int]:
    """The indices of those with the most frequent sequence of tools (the first in a tie)."""
    tools = list(map(tuple, shapes))
    most, _ = Counter(tools).most_common(1)[0]
    return [index for index, own in enumerate(tools) if own == most]


def _expected(
    repetitions: Sequence[Sequence[ToolCall]], context: Context, known: Iterable[ExpectedCall] | None = None
) -> tuple[ExpectedCall, ...]:
    """The expected calls for those of some repetitions: the `known` ones that match all of them, else new ones."""
    calls, left = [], list(known or ())
    for together in zip(*repetitions, strict=True):
        kept = next((one for one in left if all(call_matches(one, call, ArgumentMatcher()) for call in together)), None)
        if kept is None:
            seen = [ordered(call.arguments_given) for call in together if call.arguments is not None]
            kept = ExpectedCall(together[0].name, expected_value(seen, context) if seen else None)
        else:
            left.remove(kept)
        calls.append(kept)
    return tuple(calls)


def _ends(turns: Sequence[TurnJson]) -> tuple[str, ...] | None:
    """The states in which these turns ended; None if each was completed, or one was answered without a task."""
    states = {turn["state"] for turn in turns}
    return None if None in states or states == {_COMPLETED} else tuple(sorted(states))


def ordered(arguments: Any) -> Any:
    """`arguments` with sorted keys: those of a protobuf Struct have a new order in each process."""
    return json.loads(json.dumps(with_whole_numbers(arguments), sort_keys=True))
