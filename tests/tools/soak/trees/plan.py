"""What users ask for: random trees of messages between agents, as JSON in the text of the message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

AGENTS = "abcd"

WHOLE, TRACEPARENT, REFERENCE, NOTHING = HOW = ("whole", "traceparent", "reference", "nothing")
"""What a message carries of the turn that caused it: the whole trace context, as OpenTelemetry's SDK passes it on; the
`traceparent` alone; the id of the task that caused it; nothing."""

ANSWERS, FAILS, BREAKS, IS_LEFT = ENDS = ("answers", "fails", "breaks", "is left")
"""How a try ends: the task completes, or fails; the agent's code breaks; or the client leaves its stream at once, while
the agent works on. All but the first are repeated."""


@dataclass
class Message:
    """A message to an agent, which asks others in turn: `groups` one after the other, those of a group at once."""

    name: str
    agent: str
    how: str
    tries: list[str]
    """How each try ends, the last one with `ANSWERS`."""
    groups: list[list[Message]] = field(default_factory=list)

    def text(self, key: str, number: int) -> str:
        """Of try `number`, whose `key` no other message has."""
        return json.dumps({"key": key, "try": number, "asks": self.to_dict()})

    def to_dict(self) -> dict[str, Any]:
        groups = [[one.to_dict() for one in group] for group in self.groups]
        return {"name": self.name, "agent": self.agent, "how": self.how, "tries": self.tries, "groups": groups}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Message:
        return cls(**data | {"groups": [list(map(cls.of, group)) for group in data["groups"]]})


def conversations(seed: int, count: int, *, traced_users: bool) -> Iterator[Message]:
    """`traced_users`: half of the users send a trace context of their own."""
    for number in range(count):
        dice = Random(f"{seed}/{number}")
        how = dice.choice([WHOLE, NOTHING]) if traced_users else NOTHING
        yield _message(dice, f"c{number}", how, [ANSWERS], depth=dice.choice([1, 1, 1, 2, 3]))


def _message(dice: Random, name: str, how: str, tries: list[str], depth: int) -> Message:
    groups = [dice.choice([1, 1, 2, 3]) for _ in range(dice.choice([0, 1, 1, 2]))] if depth else []
    return Message(
        name,
        dice.choice(AGENTS),
        how,
        tries,
        [
            [
                _message(dice, f"{name}.{at}-{one}", dice.choice([WHOLE, *HOW]), _tries(dice), depth - 1)
                for one in range(size)
            ]
            for at, size in enumerate(groups)
        ],
    )


def _tries(dice: Random) -> list[str]:
    return [*(dice.choice(ENDS[1:]) for _ in range(dice.choice([0, 0, 0, 0, 0, 1, 2]))), ANSWERS]
