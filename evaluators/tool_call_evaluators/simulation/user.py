"""A simulated user in one conversation: what it sends, when it ends, and its faults. Without input or output."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from a2a_tool_capture.models import Finding

from ..judge.prompt import Message
from .faults import USER_EMPTY, USER_NO_END, USER_UNANSWERED, fault_in, user_fault
from .instructions import GAVE_UP, GOAL_REACHED
from .scenario import Simulation

End = Literal["goal_reached", "gave_up", "stop", "agent_failed", "no_end", "fault"]
"""Why a conversation ended: the user's model says that the goal is reached, or out of reach; the stop phrase; the agent
failed; `max_turns`; a fault of the user."""

MAX_MESSAGE = 20_000
"""Most characters of a message of the user; the rest is cut."""
_BEGIN = "(The conversation begins. Write your first message to the agent.)"
_NO_TEXT = "(The agent answered without text.)"


@dataclass
class SimulatedUser:
    """One conversation. `sent` counts the messages of the simulated user, not those of scripted turns.

    After `scripted` turns: send `opening` if there is one, else ask the model with `messages` and pass its text to
    `reply`, which returns the message to send; pass the agent's answer to `hear`. Repeat until there is an `end`.
    """

    scenario: Simulation
    instructions: str
    prompt: str = ""
    """Name and version of the prompt that the instructions follow."""
    tool_names: Collection[str] = ()
    sent: int = 0
    replies: list[str] = field(default_factory=list)
    """What the model wrote, in order, the message that ended the conversation included."""
    fault: Finding | None = None
    end: End | None = None
    _said: list[str] = field(default_factory=list)
    _heard: list[str] = field(default_factory=list)

    @property
    def turns(self) -> int:
        """Messages of the conversation so far, scripted ones included."""
        return len(self._said)

    def scripted(self, message: str, answer: str, *, failed: bool = False) -> None:
        """A scripted turn before the simulation; `failed`: the conversation cannot continue."""
        self._said.append(message)
        self._heard.append(answer)
        if failed:
            self.end = "agent_failed"

    def opening(self) -> str | None:
        """The scenario's first message, once; then None."""
        if self.end or self.sent or self.scenario.opening is None:
            return None
        return self._say(self.scenario.opening)

    def messages(self) -> list[Message]:
        """The question for the model: its own messages have the role `assistant`, those of the agent `user`."""
        chat = [{"role": "system", "content": self.instructions}, {"role": "user", "content": _BEGIN}]
        for said, heard in zip(self._said, self._heard, strict=True):
            chat.append({"role": "assistant", "content": said})
            chat.append({"role": "user", "content": heard.strip() or _NO_TEXT})
        return chat

    def reply(self, text: str) -> str | None:
        """The message to send, given what the model wrote; None: the conversation ended, and nothing is sent."""
        if self.end:
            return None
        text = text.rpartition("</think>")[2].strip()[:MAX_MESSAGE]
        self.replies.append(text)
        if end := self._end_in(text):
            if self._said:
                self.end = end
            else:
                self._faulty(user_fault(USER_EMPTY, "it ended the conversation before its first message"))
        elif self.sent >= self.scenario.max_turns:
            self.end = "no_end"
            self.fault = user_fault(USER_NO_END, f"it did not end within {self.scenario.max_turns} messages")
        elif fault := fault_in(text, self._said, self._heard, self._given(), self.tool_names):
            self._faulty(fault)
        else:
            return self._say(text)
        return None

    def unanswered(self, problem: str) -> None:
        """The model wrote nothing, because of this `problem`."""
        self._faulty(user_fault(USER_UNANSWERED, f"no reply: {problem}"))

    def hear(self, answer: str, *, failed: bool = False) -> None:
        """The agent's answer to the last message; `failed`: the conversation cannot continue."""
        self._heard.append(answer)
        if failed:
            self.end = "agent_failed"
        elif self._stops(answer):
            self.end = "stop"

    def _say(self, text: str) -> str:
        self.sent += 1
        self._said.append(text)
        return text

    def _faulty(self, fault: Finding) -> None:
        self.end, self.fault = "fault", fault

    def _end_in(self, text: str) -> End | None:
        if GOAL_REACHED in text:
            return "goal_reached"
        if GAVE_UP in text:
            return "gave_up"
        return "stop" if self._stops(text) else None

    def _stops(self, text: str) -> bool:
        return self.scenario.stop is not None and self.scenario.stop.casefold() in text.casefold()

    def _given(self) -> str:
        """All that the user was given to know, whatever a prompt of the suite's own leaves out."""
        own = self.scenario
        return "\n".join(
            (self.instructions, own.goal, own.profile or "", *own.knowledge, own.context or "", own.opening or "")
        )
