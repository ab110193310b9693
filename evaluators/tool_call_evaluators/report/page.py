"""The data of the interactive part of the HTML report, bounded in size for any run.

Texts are cut to shorter and shorter limits until the data fits; a cut text states the number of missing characters.
The export of the run contains everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..judged.base import band
from ..matching.arguments import Difference
from ..matching.explain import CallChange, expected_call_text
from ..model import EvalResult
from ..outcomes.conversations import ConversationTurn, RunConversation, TurnJson
from ..simulation.record import user_text
from ..suite import Expectation
from ..texts import EXPECTATION_WORDS, call_text, cost_text, printable, source_text, tokens_text, without_directions
from ..visibility import state_name
from .causes import IN_ERRORS
from .focus import all_failures
from .model import Report, judge_standing, seconds_between
from .shorten import LONGEST_TEXT, Shortener

MAX_BYTES = 24_000_000
"""Maximum size of the data."""
TEXT_LIMITS = (LONGEST_TEXT, 4_000, 1_000, 250)
"""Limits on the length of a text, in characters; the first limit with which the data fits is used."""
MAX_CALLS = 300
"""Maximum number of tool calls of a turn on the page."""
MAX_DIFFERENCES = 200
"""Of a call, ..."""
MAX_WORDS = 20
"""... and in words."""


def page_data(report: Report, most: int = MAX_BYTES) -> str:
    """JSON for the page, `{"conversations": [...]}`, of at most `most` bytes, safe inside a script element.

    If even the shortest texts do not fit, conversations are included without turns: first those that did not fail, in
    reverse order.
    """
    for limit in TEXT_LIMITS:
        short, parts, total = Shortener(limit), [], 0
        for conversation in report.conversations:
            parts.append(_encoded(conversation_data(report, conversation, short)))
            total += len(parts[-1])
            if total > most and limit != TEXT_LIMITS[-1]:
                break
        else:
            break
    in_reverse = reversed(range(len(parts)))
    for index in sorted(in_reverse, key=lambda index: report.status(report.conversations[index]) == "failed"):
        if total <= most:
            break
        total -= len(parts[index])
        parts[index] = _encoded({**_heading(report, report.conversations[index]), "omitted": True})
        total += len(parts[index])
    return b"".join((b'{"conversations":[', b",\n".join(parts), b"]}")).decode()


def _encoded(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    return printable(without_directions(text)).replace("<", "\\u003c").encode()


def _heading(report: Report, conversation: RunConversation) -> dict[str, Any]:
    return _without_empty(
        {
            "label": conversation.label,
            "case": conversation.case_id or "",
            "status": report.status(conversation),
            "notes": report.notes(conversation),
            "tags": list(conversation.case.tags) if conversation.case else [],
            "focus": all_failures(report, conversation) if report.parts else None,
        }
    )


def conversation_data(report: Report, conversation: RunConversation, short: Shortener) -> dict[str, Any]:
    """The data of one conversation with its turns. Empty values are missing."""
    start = conversation.executed[0]["started_at"] if conversation.executed else None
    case = conversation.case
    goal = case.user_goal or (case.simulate.goal if case.simulate else None) if case else None
    return (
        _heading(report, conversation)
        | _without_empty(
            {
                "id": conversation.conversation_id,
                "goal": short.text(goal),
                "user": short.text(user_text(conversation.user)) if conversation.user else None,
                "expect": _expected(case.expect if case else None, short),
                "expect_lines": _expected_lines(conversation, case.expect if case else None, short),
                "reasons": [
                    short.text(reason["message"])
                    for reason in report.reasons_of(conversation)
                    if reason["code"] not in IN_ERRORS
                ],
                "results": [
                    _result(result, short, report.note(conversation, None, result)) for result in conversation.results
                ],
                "given": [
                    turn_data(report, conversation, turn, turn.turn["started_at"], short)
                    for turn in conversation.given
                    if turn.turn
                ],
                "turns": [turn_data(report, conversation, turn, start, short) for turn in conversation.turns],
            }
        )
        | _compared(report.changes_of_all(conversation), case.expect if case else None, conversation.executed, short)
    )


def turn_data(
    report: Report, conversation: RunConversation, planned: ConversationTurn, start: str | None, short: Shortener
) -> dict[str, Any]:
    """The data of one turn. Times are seconds since `start`. Empty values are missing."""
    turn = planned.turn
    if turn is None:
        return _without_empty(
            {
                "number": planned.index + 1,
                "missing": True,
                "why": short.text(conversation.no_history or "no matching turn"),
                "expect": _expected(planned.expect, short),
                "expect_lines": _expected_lines(conversation, planned.expect, short),
                "expected_calls": _expected_calls(planned.expect, short),
            }
        )
    if planned.unseen and not turn["tool_calls"] and not conversation.counts_all_agents:
        expected = _expected_calls(planned.expect, short) or []
        changes = [["unknown", number, None] for number in range(len(expected))]
        compared = {"expected_calls": expected, "changes": changes}
    else:
        compared = _compared(report.changes(conversation, planned), planned.expect, [turn], short)
    wire = f"{turn['binding']} {turn['protocol_version']}"
    return compared | _without_empty(
        {
            "number": planned.index + 1,
            "given": turn.get("given"),
            "id": turn["turn_id"],
            "user": short.text(turn["user_text"]),
            "agent": short.text(turn["response_text"]),
            "state": turn["state"],
            "wire": f"{name} · {wire}" if (name := turn.get("agent_name")) else wire,
            "trace": turn["trace_id"],
            "failure": short.text(planned.failure),
            "usage": f"{tokens_text(usage)} tokens{source_text(usage)}{cost_text(usage)}"
            if (usage := turn.get("usage"))
            else None,
            "at": turn["started_at"],
            "time": [seconds_between(start, turn[key]) for key in ("started_at", "first_event_at", "ended_at")],
            "calls": [_call(call, start, short) for call in turn["tool_calls"][:MAX_CALLS]],
            "waiting": [short.text(call_text(call)) for call in (turn.get("approvals") or ())[:MAX_CALLS]],
            "calls_left_out": max(0, len(turn["tool_calls"]) - MAX_CALLS) or None,
            "unseen": planned.unseen is not None or None,
            "all_agents": conversation.counts_all_agents or None,  # reasons name calls by their places among all
            "expect": _expected(planned.expect, short),
            "expect_lines": _expected_lines(conversation, planned.expect, short),
            "results": [
                _result(result, short, report.note(conversation, planned, result)) for result in planned.results
            ],
            "findings": [[item["severity"], item["code"], short.text(item["message"])] for item in turn["findings"]],
            "capture": {key: value for key, value in turn["capture"].items() if value and key != "sources"},
        }
    )


def _compared(
    changes: list[CallChange] | None, expect: Expectation | None, turns: Iterable[TurnJson], short: Shortener
) -> dict[str, Any]:
    """The comparison of expected and actual calls; included even if both are empty, which is as expected."""
    if changes is None:
        return {}
    calls = [call for turn in turns for call in turn["tool_calls"]]
    return {
        "expected_calls": _expected_calls(expect, short),
        "changes": [_change(change, calls, short) for change in changes],
    }


def _call(call: Mapping[str, Any], start: str | None, short: Shortener) -> dict[str, Any]:
    times = [seconds_between(start, call.get(key)) for key in ("started_at", "ended_at")]
    return _without_empty(
        {
            "name": short.text(call["name"]),
            "unknown": call["arguments"] is None,
            "arguments": _arguments(call["arguments"], short),
            "result": short.text(call["result"]),
            "error": short.text(call["error"]),
            "source": call["source"],
            "time": times if times[0] is not None else None,
        }
    )


def _arguments(arguments: Mapping[str, Any] | None, short: Shortener) -> dict[str, Any]:
    return {key: short.value(value) for key, value in sorted((arguments or {}).items())}


def _expected_calls(expect: Expectation | None, short: Shortener) -> list[dict[str, Any]] | None:
    if expect is None or expect.tool_calls is None:
        return None
    return [
        _without_empty(
            {
                "name": short.text(call.name),
                "any": call.arguments is None or call.arguments == {"$any": True},
                "arguments": _arguments(call.arguments, short),
            }
        )
        | {part: short.value(value) for part, value in call.outcome.items()}
        for call in expect.tool_calls[:MAX_CALLS]
    ]


def _change(change: CallChange, calls: Sequence[Mapping[str, Any]], short: Shortener) -> list[Any]:
    """`[kind, left, right]`, and for a changed call its differences in words, and its arguments: those that differ by
    their paths, with what was expected, then the others."""
    if change.right is None or not change.differences:
        return [change.kind, change.left, change.right]
    words = [short.text(str(difference)) for difference in change.differences[:MAX_WORDS]]
    differing = [one for one in change.differences if one.part == "arguments"][:MAX_DIFFERENCES]
    rows = [_differing(one, short) for one in differing]
    for name, value in (calls[change.right]["arguments"] or {}).items() if rows else ():
        if not any(one.concerns(name) for one in differing):
            rows.append({"key": short.text(name), "value": short.value(value)})
    return [change.kind, change.left, change.right, words, rows]


def _differing(difference: Difference, short: Shortener) -> dict[str, Any]:
    row = {"key": short.text(difference.path) or "arguments", "problem": difference.problem}
    if difference.problem != "unexpected":
        row["expected"] = short.value(difference.expected)
    if difference.problem in ("different", "unexpected"):
        row["actual"] = short.value(difference.actual)
    return row


_IN_LINES = ("tool_calls", "forbidden_calls", "agents", "approval")


def _expected(expect: Expectation | None, short: Shortener) -> dict[str, Any]:
    """The other expectations, in addition to the calls that are compared, by their names for people."""
    return {
        EXPECTATION_WORDS[name]: short.value(value["equals"] if name == "state_of_world" else value)
        for name, value in (expect.values if expect else {}).items()
        if value is not None and name not in _IN_LINES
    }


def _expected_lines(
    conversation: RunConversation, expect: Expectation | None, short: Shortener
) -> dict[str, list[str]] | None:
    """Those that are lists of texts. Calls only where those of all agents count, which are not compared."""
    if expect is None:
        return None
    calls = expect.tool_calls if conversation.counts_all_agents else ()
    lines = {
        "tool calls of all agents": map(expected_call_text, (calls or ())[:MAX_CALLS]),
        EXPECTATION_WORDS["forbidden_calls"]: map(expected_call_text, (expect.forbidden_calls or ())[:MAX_CALLS]),
        EXPECTATION_WORDS["agents"]: map(str, (expect.agents or ())[:MAX_CALLS]),
        EXPECTATION_WORDS["approval"]: [expected_call_text(expect.approval)] if expect.approval else [],
        EXPECTATION_WORDS["state"]: map(state_name, expect.state or ()),
    }
    return {name: shown for name, texts in lines.items() if (shown := [short.text(text) or "" for text in texts])}


def _result(result: EvalResult, short: Shortener, note: str) -> dict[str, Any]:
    return _without_empty(
        {
            "metric": result.evaluator,
            "status": str(result.status),
            "score": result.score,
            "band": band(result.score, result.scale),
            "scale": None if result.scale == (0.0, 1.0) else list(result.scale),
            "threshold": result.threshold,
            "label": result.label,
            "judge": said["text"] if (said := judge_standing(result)) else None,
            "note": note,
            "reason": short.text(result.reason),
            "details": short.value(result.details) if result.bad and result.details else None,
        }
    )


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Drops None, False and empty values, which the page assumes for missing ones. Numbers stay."""
    return {key: value for key, value in values.items() if value or (value == 0 and value is not False)}
