"""What the store keeps of a simulated user: in the JSON form of the last turn of its conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from a2a_tool_capture.models import Finding

from ..judge.question import Usage, total, usage_text
from ..texts import counted
from .user import USER_FAULTS, USER_NO_END, USER_UNANSWERED

SIMULATED_USER = "simulated_user"
"""The key of a turn's JSON form, and the name of the result that holds the record of a conversation without turns."""


@dataclass(frozen=True, slots=True)
class UserRecord:
    """The simulated user of a conversation that ended.

    `conversation` numbers those of a case, from 1; `replies` are the texts of the model, in order; `instructions` is a
    hash of the model's instructions and of the opening; `replayed` names the run whose replies were used. `redacted`:
    the replies are not as they were sent.
    """

    conversation: int
    end: str
    replies: tuple[str, ...]
    instructions: str
    prompt: str
    model: str = ""
    fault: Finding | None = None
    usage: Usage = field(default_factory=Usage)
    replayed: str | None = None
    redacted: bool = False

    @property
    def invalid(self) -> bool:
        """Whether a fault cut the conversation short, so that it says nothing about the agent as a whole."""
        return self.fault is not None and self.fault.code != USER_NO_END

    @property
    def interrupted(self) -> bool:
        """Whether the model did not answer: then the conversation is worth another attempt."""
        return self.fault is not None and self.fault.code == USER_UNANSWERED

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `from_dict` is its inverse."""
        data: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        return data | {
            "replies": list(self.replies),
            "fault": self.fault and self.fault.to_dict(),
            "usage": self.usage.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UserRecord:
        """Inverse of `to_dict`. Raises KeyError or TypeError for data that is not a record."""
        values = dict(data)
        fault = Finding.from_dict(values["fault"]) if values["fault"] else None
        return cls(**values | {"replies": tuple(values["replies"]), "fault": fault, "usage": Usage(**values["usage"])})


def record_in(turns: Iterable[Mapping[str, Any]]) -> UserRecord | None:
    """The record in these turns of one conversation (JSON form); None if its simulated user did not end it."""
    for turn in turns:
        kept = turn.get(SIMULATED_USER)
        if kept and "end" in kept:
            return UserRecord.from_dict(kept)
    return None


def is_driven(turns: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a simulated user took part in these turns (JSON form)."""
    return any(turn.get(SIMULATED_USER) for turn in turns)


def fault_counts(records: Iterable[UserRecord]) -> dict[str, int]:
    """The number of faults by code, those that there are."""
    codes = [record.fault.code for record in records if record.fault is not None]
    return {code: codes.count(code) for code in USER_FAULTS if code in codes}


def user_usage(records: Iterable[UserRecord]) -> Usage:
    """What the model of the simulated users cost; replayed replies cost nothing."""
    return total(record.usage for record in records)


def users_text(users: Sequence[UserRecord]) -> str:
    """`3 conversations, 1 user_repeats, 12 requests`: simulated users, their faults and cost; empty without any."""
    if not users:
        return ""
    faults = [f"{count:,} {code}" for code, count in fault_counts(users).items()]
    usage = usage_text(user_usage(users))
    return ", ".join([counted(len(users), "conversation"), *faults, *([usage] if usage else [])])


def user_text(user: UserRecord) -> str:
    """How a simulated user ended its conversation."""
    return f"{user.fault.code}: {user.fault.message}" if user.fault else user.end.replace("_", " ")


def fingerprint(instructions: str, opening: str | None) -> str:
    """Equal for users with equal instructions."""
    return hashlib.sha256(f"{instructions}\0{opening or ''}".encode()).hexdigest()
