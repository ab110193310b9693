"""A simulated user in one conversation: scenario, instructions, what it sends, when it ends, and its faults.

Without input or output.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from a2a_tool_capture.models import Finding, Severity

from ..judge.question import Message, Prompt, load_prompt
from ..options import OptionError, or_known
from ..suite_fields import TEXT, TEXTS, SuiteFields, Text, Value, text_or_texts, whole_number
from ..texts import one_line

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


GOAL_REACHED, GAVE_UP = "###STOP###", "###GIVE-UP###"
"""Messages of the model that end the conversation and are not sent. The first is that of arksim's prompts."""
_CUSTOM = "custom"
_NOTHING = "(not given)"

_PLACE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_ALIASES = {
    "scenario.goal": "goal",
    "scenario.user_profile": "profile",
    "scenario.knowledge": "knowledge",
    "scenario.agent_context": "context",
}
"""Names of arksim's prompts."""
PLACES = ("goal", "profile", "knowledge", "context", "stop", "give_up")
_EXAMPLE = Simulation(goal="the goal of the user", knowledge=("something",))


def user_prompt(own: str | None) -> Prompt:
    """The prompt of the package, or the suite's own. Raises OptionError for an own one that cannot be filled."""
    if own is None:
        return load_prompt("simulated_user")
    prompt = Prompt(_CUSTOM, "1", own)
    if _EXAMPLE.goal not in instructions_for(_EXAMPLE, prompt):
        raise OptionError("simulated_user: option prompt must hold {{goal}}, else the user does not know it", "prompt")
    return prompt


def instructions_for(scenario: Simulation, prompt: Prompt) -> str:
    """`prompt` with the places filled. Texts of the scenario are not searched for places. Raises OptionError."""
    if "{%" in prompt.text:
        return _of_template(scenario, prompt.text)
    values = _values(scenario)

    def value(place: re.Match[str]) -> str:
        name = _ALIASES.get(place[1], place[1])
        if name not in values:
            raise OptionError(
                f"simulated_user: option prompt: unknown {{{{{name}}}}}{or_known(name, PLACES)}", "prompt"
            )
        return values[name] or _NOTHING

    return _PLACE.sub(value, prompt.text)


def _of_template(scenario: Simulation, text: str) -> str:
    """The text of a Jinja template with arksim's variables. Knowledge that it leaves out is added: arksim gives several
    items turn by turn."""
    from jinja2 import TemplateError, sandbox  # few suites have templates, and importing it takes time

    scenario_values: dict[str, Any] = {
        "goal": scenario.goal,
        "user_profile": scenario.profile or "",
        "agent_context": scenario.context or "",
        "knowledge": [{"content": item} for item in scenario.knowledge],
    }
    try:
        template = sandbox.SandboxedEnvironment().from_string(text)
        filled: str = template.render({**_values(scenario), "scenario": scenario_values})
    except (TemplateError, ArithmeticError, TypeError, ValueError) as error:
        raise OptionError(f"simulated_user: option prompt: {type(error).__name__}: {error}", "prompt") from None
    left_out = [item for item in scenario.knowledge if item not in filled]
    return "\n\n".join([filled, *(["Reference knowledge:"] if left_out else []), *left_out])


def _values(scenario: Simulation) -> dict[str, str | None]:
    return {
        "goal": scenario.goal,
        "profile": scenario.profile,
        "knowledge": "\n\n".join(scenario.knowledge),
        "context": scenario.context,
        "stop": GOAL_REACHED,
        "give_up": GAVE_UP,
    }


USER_OUT_OF_ROLE = "user_out_of_role"
USER_KNOWS_TOO_MUCH = "user_knows_too_much"
USER_REPEATS = "user_repeats"
USER_EMPTY = "user_empty"
USER_UNANSWERED = "user_unanswered"
USER_NO_END = "user_no_end"

USER_FAULTS = (USER_OUT_OF_ROLE, USER_KNOWS_TOO_MUCH, USER_REPEATS, USER_EMPTY, USER_UNANSWERED, USER_NO_END)
"""Codes of findings. All but the last spoil a conversation: it stops before the agent gets the message."""

_MODEL = r"(ai|artificial intelligence|(ai )?(large )?language model|ai model)(?=[^\w\n]*([,.;:!?)]|$| i\b))"
_AS_ASSISTANT = re.compile(
    r"^[^\w\n]*(assistant|agent|ai|system|tool)\s*:"
    rf"|\b(as|i['’]m|i am)( just)? an? {_MODEL}"
    r"|\bi(['’]m| am)( just)? an? (virtual|digital|ai) assistant\b"
    r"|\bhow (can|may) i (help|assist) you\b"
    r"|\b(any|some)thing else (that )?i can (help|assist)\b"
    r"|\bsimulated user\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What only an assistant writes, in English."""
_ECHOED = 40
"""Characters of the agent's last answer that the user would not write word for word."""
_SENTENCE = 4
"""Words from which on a message is no mere `Yes` or `Thank you`, which a user may send several times."""
_WORD = re.compile(r"[^\W_]+(?:[-_./:][^\W_]+)*")
_IDENTIFIER = re.compile(r"[^\W\d_]+[-_/]\d{4,}.*|\d{7,}|(?=.*[^\W\d_])(?:\D*\d){6,}.*")
"""Such as ORD-1001, 20012345 or A1234567; not dates, times, amounts and names of products, which a user may choose."""


def fault_in(
    message: str, said: Sequence[str], heard: Sequence[str], given: str, tool_names: Collection[str] = ()
) -> Finding | None:
    """The fault of the user's next message, if any.

    `said` are the user's earlier messages, `heard` the agent's answers, `given` all that the user was given to know.
    """
    if not message.strip():
        return user_fault(USER_EMPTY, "its message is empty")
    if found := _AS_ASSISTANT.search(message):
        return user_fault(USER_OUT_OF_ROLE, f"it speaks as the assistant: {found.group().strip()!r}")
    if heard and len(heard[-1].strip()) >= _ECHOED and _plain(heard[-1]) in _plain(message):
        return user_fault(USER_OUT_OF_ROLE, "it repeats the agent's answer as its own message")
    if _repeated(message, said):
        return user_fault(USER_REPEATS, f"it repeats itself: {one_line(message, 80)!r}")
    known = "\n".join((given, *said, *heard)).casefold()
    if word := _unknown_word(message, known, tool_names):
        return user_fault(USER_KNOWS_TOO_MUCH, f"it says {word!r}, which was neither given to it nor said before")
    return None


def user_fault(code: str, message: str) -> Finding:
    return Finding(code, message, Severity.ERROR)


def _repeated(message: str, said: Sequence[str]) -> bool:
    plain = _plain(message)
    if plain == "approve":
        return False
    if len(plain.split()) >= _SENTENCE:
        return plain in map(_plain, said)
    return len(said) >= 2 and all(_plain(earlier) == plain for earlier in said[-2:])


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _unknown_word(message: str, known: str, tool_names: Collection[str]) -> str | None:
    """An identifier, a long number or the name of a tool that is not in the `known` text."""
    words: list[str] = _WORD.findall(message)
    for word in words:
        if (word in tool_names or _IDENTIFIER.fullmatch(word)) and word.casefold() not in known:
            return word
    return None


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
