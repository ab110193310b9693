"""A turn as the report shows it: with what its case expects, bounded in size."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tool_call_evaluators.report.model import Report
from tool_call_evaluators.report.page import turn_data
from tool_call_evaluators.report.shorten import Shortener
from tool_call_evaluators.runs.outcomes import ConversationTurn, RunConversation
from tool_call_evaluators.suite import Case, Suite

from ..admin.control import Control
from ..store import Store
from ..store.base import TurnJson
from ..turn import Turn

TEXT_LIMITS = (200_000, 20_000, 4_000, 1_000)
"""Limits on the length of a text, in characters; the first with which a turn fits is used."""
MAX_CHARACTERS = 2_000_000
_NO_VERDICT = {"passed": False, "reasons": (), "tolerated": ()}
_MAX_EARLIER = 100


async def shown_turn(control: Control, turn: TurnJson) -> dict[str, Any]:
    """The data of a turn as in the report (`report.page`), with its aligned calls if its case expects some."""
    case = control.cases.case(turn["case_id"]) if turn["case_id"] is not None else None
    index = 0 if case is None else case.turn_index(turn["user_text"], await _earlier(control.store, turn, case))
    expect = case.turns[index].expect if case is not None and index < len(case.turns) else None
    planned = ConversationTurn(index, {**turn, "status": "done"}, expect)
    conversation = RunConversation("", turn["conversation_id"], turn["case_id"], case, (planned,))
    report = Report(turn["run"], _NO_VERDICT, [conversation], _suite_of(control.suite, case))
    for limit in TEXT_LIMITS:
        data = turn_data(report, conversation, planned, turn["started_at"], Shortener(limit))
        if len(json.dumps(data, default=str)) <= MAX_CHARACTERS:
            break
    return data


def _suite_of(suite: Suite | None, case: Case | None) -> Suite | None:
    """A suite with this case only, for the evaluators that compare calls."""
    return None if suite is None else replace(suite, cases=() if case is None else (case,))


async def _earlier(store: Store, turn: TurnJson, case: Case) -> int:
    """The number of earlier turns of the case in the conversation."""
    if len(case.turns) < 2 and not case.simulate:
        return 0
    earlier = await store.earlier(Turn.from_dict({**turn, "status": "done"}), _MAX_EARLIER)
    return sum(other["case_id"] == case.id for other in earlier)
