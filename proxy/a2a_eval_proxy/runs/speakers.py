"""Who speaks for the user in a conversation of `run`: the case's script, then a simulated user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from tool_call_evaluators.judge import JudgeError
from tool_call_evaluators.judge.openai_chat import ChatJudge
from tool_call_evaluators.judge.question import Reply
from tool_call_evaluators.judge.usage import Usage
from tool_call_evaluators.simulation.record import UserRecord, fingerprint
from tool_call_evaluators.simulation.user import SimulatedUser
from tool_call_evaluators.suite import Case
from tool_call_evaluators.turn_health import FAILED_STATES

from ..turn import Turn


class NoReplyError(Exception):
    """The user's next message is not recorded; the message of the error names the turn."""


class Voice(Protocol):
    """Where the replies of simulated users come from."""

    replayed: str | None
    """The run whose replies they are; None: a model writes them."""

    async def reply(self, user: SimulatedUser, case: Case, number: int) -> Reply:
        """The next reply in the conversation `number` of `case`. Raises JudgeError or NoReplyError."""


class ModelVoice:
    """A model writes the replies."""

    replayed: str | None = None

    def __init__(self, model: ChatJudge, seed: int | None) -> None:
        self._model = model
        self._seed = seed

    async def reply(self, user: SimulatedUser, case: Case, number: int) -> Reply:
        seed = None if self._seed is None else self._seed + number - 1
        return await self._model.reply(user.messages(), seed)


class RecordedVoice:
    """The replies of an earlier run, by case and number of the conversation."""

    def __init__(self, run: str, records: Mapping[tuple[str, int], UserRecord]) -> None:
        self.replayed: str | None = run
        self.records = records

    async def reply(self, user: SimulatedUser, case: Case, number: int) -> Reply:
        record = self.records[case.id, number]
        position = len(user.replies)
        if position >= len(record.replies):
            raise NoReplyError(
                f"run {self.replayed!r} has no reply of the user for turn {user.turns + 1} of case {case.id!r}, "
                f"conversation {number}: there, the conversation ended before (end: {record.end})"
            )
        return Reply(record.replies[position], record.model)


class Speaker:
    """The user's side of one conversation: the scripted turns of the case, then (with `user`) the simulated ones."""

    def __init__(self, case: Case, number: int, user: SimulatedUser | None, voice: Voice | None) -> None:
        self._case = case
        self._number = number
        self._user = user
        self._voice = voice
        self._script = [turn.user for turn in case.turns]
        self.spoken = 0
        """Messages of the conversation so far."""
        self._broken = False
        self._usage = Usage()
        self._model = ""
        self.problem: JudgeError | NoReplyError | None = None
        """Why there is no reply of the simulated user, if so."""

    @property
    def left(self) -> int:
        """Planned messages that were not sent."""
        return planned_turns(self._case) - self.spoken

    async def next(self) -> str | None:
        """The next message; None at the end of the conversation."""
        if self._broken:
            return None
        text = self._script[self.spoken] if self.spoken < len(self._script) else await self._simulated()
        if text is not None:
            self.spoken += 1
        return text

    async def _simulated(self) -> str | None:
        user = self._user
        if user is None or self._voice is None or user.end:
            return None
        if (opening := user.opening()) is not None:
            return opening
        try:
            reply = await self._voice.reply(user, self._case, self._number)
        except (JudgeError, NoReplyError) as error:
            if isinstance(error, JudgeError):
                self._usage += error.usage
            self.problem = error
            user.unanswered(str(error))
            return None
        self._usage += reply.usage
        self._model = reply.model
        return user.reply(reply.text)

    def heard(self, text: str, turn: Turn | None, *, broken: bool) -> None:
        """What the agent made of the message `text`; no turn: nothing."""
        self._broken = broken
        if self._user is None or turn is None:
            return
        if self.spoken <= len(self._script):
            self._user.scripted(text, turn.response_text, failed=broken)
        else:
            self._user.hear(turn.response_text, failed=broken or turn.state in FAILED_STATES)

    @property
    def mark(self) -> dict[str, Any] | None:
        """What each turn has of the simulated user; None without one."""
        return None if self._user is None else {"conversation": self._number}

    @property
    def record(self) -> dict[str, Any] | None:
        """The JSON form of the simulated user's record; None without one that ended the conversation."""
        user = self._user
        if user is None or user.end is None:
            return None
        replayed = self._voice.replayed if self._voice else None
        return UserRecord(
            conversation=self._number,
            end=user.end,
            replies=tuple(user.replies),
            instructions=fingerprint(user.instructions, user.scenario.opening),
            prompt=user.prompt,
            model=self._model,
            fault=user.fault,
            usage=self._usage,
            replayed=replayed,
        ).to_dict()


def planned_turns(case: Case) -> int:
    """The most turns that one conversation of the case has."""
    return len(case.turns) + (case.simulate.max_turns if case.simulate else 0)
