"""Which case each turn of a conversation belongs to, and which of its turns it is: the same for every worker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..scoring.case_book import CaseBook
from ..scoring.scorer import TurnJson


class Place(NamedTuple):
    """The case of a turn (None: of no case), and how many earlier turns of its conversation are of that case."""

    case_id: str | None
    earlier: int


def places(cases: CaseBook, conversation: Sequence[TurnJson]) -> list[Place]:
    """The places of the turns of one conversation, given in order; a turn without conversation is given alone.

    What comes out depends on these turns alone, not on what `cases` has seen before.
    """
    if conversation:
        cases.forget(conversation[0]["conversation_id"])
    found = []
    seen: Counter[str] = Counter()
    for turn in conversation:
        case_id = cases.match(turn["case_id"], turn["conversation_id"], turn["user_text"])
        found.append(Place(case_id, seen[case_id] if case_id else 0))
        if case_id:
            seen[case_id] += 1
    return found
