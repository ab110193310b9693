"""A stored turn with its place in its case, as the report of a run sees it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tool_call_evaluators.matching.explain import CallChange
from tool_call_evaluators.outcomes.conversations import ConversationTurn, RunConversation, is_given
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.suite import Case

from ..store import Store
from ..store.base import TurnJson
from ..turn import Turn
from .case_book import CaseBook

_NO_VERDICT = {"passed": False, "reasons": (), "tolerated": ()}
_MAX_EARLIER = 100


@dataclass(frozen=True, slots=True)
class TurnInCase:
    """A turn in a report of that turn alone. The report has no verdict."""

    report: Report
    conversation: RunConversation
    turn: ConversationTurn

    @property
    def changes(self) -> list[CallChange] | None:
        """The expected calls (left) compared with the actual ones (right); None without an expectation.

        May take long for turns with hundreds of calls.
        """
        return self.report.changes(self.conversation, self.turn)


async def turn_in_case(cases: CaseBook, store: Store, turn: TurnJson) -> TurnInCase:
    """The turn with what its case expects, if it belongs to one. Raises StoreError."""
    case = cases.case(turn["case_id"]) if turn["case_id"] is not None else None
    index, expect, given = 0, None, is_given(case, turn)
    if case is not None and not given:
        index = case.turn_index(turn["user_text"], await _earlier(store, turn, case), turn.get("agent_name"))
        expect = case.turns[index].expect if index < len(case.turns) else None
    planned = ConversationTurn(index, {**turn, "status": "done", "given": given}, expect)
    conversation = RunConversation("", turn["conversation_id"], turn["case_id"], case, (planned,))
    # with this case only, for the evaluators that compare calls
    suite = cases.suite and replace(cases.suite, cases=() if case is None else (case,))
    return TurnInCase(Report(turn["run"], _NO_VERDICT, [conversation], suite), conversation, planned)


async def _earlier(store: Store, turn: TurnJson, case: Case) -> int:
    """The number of earlier turns of the case in the conversation."""
    if len(case.turns) < 2 and not case.simulate:
        return 0
    read = Turn.from_dict({**turn, "status": "done"})
    earlier = await store.earlier(read, _MAX_EARLIER, read.agent_of_conversation, case.id)
    return sum(not case.is_given(one) for one in earlier)
