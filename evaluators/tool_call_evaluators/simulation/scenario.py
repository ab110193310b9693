"""The `simulate` block of a case: who the simulated user is, what the user wants, and when the conversation ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ..suite_fields import TEXT, TEXTS, SuiteFields, Text, Value, text_or_texts, whole_number

MAX_TURNS = 100
MAX_CONVERSATIONS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(SuiteFields):
    """A model plays the user, and writes each message from what it is given here and the conversation so far."""

    goal: Text
    """What the user wants to reach. Also the case's `user_goal`, unless that is given."""
    profile: Text | None = None
    """Who the user is, and how the user writes."""
    knowledge: Annotated[tuple[str, ...], Value(text_or_texts, {"anyOf": [TEXT, TEXTS]})] = ()
    """What the user knows: one string or a list. Also the case's `knowledge`, unless that is given."""
    context: Text | None = None
    """What the user knows about the agent."""
    opening: Text | None = None
    """The user's first message, sent as it is. Default: the model writes it."""
    max_turns: Annotated[int, whole_number(1, MAX_TURNS)] = 10
    """Most messages of the simulated user, the opening included and scripted turns not."""
    stop: Text | None = None
    """A phrase that ends the conversation, in a message of either side."""
    conversations: Annotated[int, whole_number(1, MAX_CONVERSATIONS)] | None = None
    """How many conversations are held. Default: the case's `repeat`."""

    def case_fields(self) -> dict[str, Any]:
        """The fields of EvalCase that a case need not repeat."""
        return {"user_goal": self.goal, "knowledge": self.knowledge or None, "profile": self.profile}
