"""Who speaks for the user in a conversation of `run`: the case's script, then a simulated user.

For that, a model speaks or a recorded run, which is checked before the run begins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from a2a_tool_capture.wire import FAILED_STATES
from tool_call_evaluators.attempts import attempt_seed
from tool_call_evaluators.judge import JudgeError
from tool_call_evaluators.judge.openai_chat import ChatJudge
from tool_call_evaluators.judge.question import Prompt, Reply, Usage
from tool_call_evaluators.judge.settings import ENVIRONMENT as JUDGE_ENVIRONMENT
from tool_call_evaluators.options import OptionError
from tool_call_evaluators.simulation.record import UserRecord, fingerprint, record_in
from tool_call_evaluators.simulation.settings import ENVIRONMENT
from tool_call_evaluators.simulation.user import SimulatedUser, Simulation, instructions_for, user_prompt
from tool_call_evaluators.suite import Case, GivenTurn, History, Suite
from tool_call_evaluators.suite.messages import UserMessage, is_kept, sent_message
from tool_call_evaluators.suite.model import MAX_GIVEN
from tool_call_evaluators.texts import call_text, counted
from tool_call_evaluators.visibility import turn_failure_of

from ..errors import ConfigError
from ..privacy.redactor import is_redacted, lacks_content
from ..store import Store
from ..turn import Turn
from .stored_turns import turns_of


class NoReplyError(Exception):
    """The user's next message is not recorded; the message of the error names the turn."""


class _Place(NamedTuple):
    """Of a simulated user: the case, the number of the conversation, and whether it speaks in the history."""

    case_id: str
    number: int
    given: bool


Voice = Callable[[SimulatedUser, _Place], Awaitable[Reply]]
"""The next reply of a user. Raises JudgeError, NoReplyError."""


def _of_model(model: ChatJudge, seed: int | None) -> Voice:
    def reply(user: SimulatedUser, place: _Place) -> Awaitable[Reply]:
        return model.reply(user.messages(), None if seed is None else attempt_seed(seed, place.case_id, place.number))

    return reply


def _of_run(run: str, records: Mapping[_Place, UserRecord]) -> Voice:
    """The replies of an earlier run."""

    async def reply(user: SimulatedUser, place: _Place) -> Reply:
        record = records[place]
        position = len(user.replies)
        if position >= len(record.replies):
            raise NoReplyError(
                f"run {run!r} has no reply of the user for turn {user.turns + 1} of case {place.case_id!r}, "
                f"conversation {place.number}: there, the conversation ended before (end: {record.end})"
            )
        return Reply(record.replies[position], record.model)

    return reply


_QUESTION = (
    "\n\n(The agent asks whether it may call {}. Write APPROVE, unless what you want speaks against it: then write "
    "REJECT: and why. To say anything else, write it as usual.)"
)
"""What a simulated user is told of calls that wait for approval."""
_DECISION = re.compile(r"(APPROVE)[\s.!]*|REJECT\b[\s:.]*(.*)", re.DOTALL)


class Speaker:
    """The user's side of one conversation, or (`given`) of its history: scripted turns, then, with `user`, simulated
    ones."""

    def __init__(
        self,
        case: Case,
        place: _Place,
        script: Sequence[GivenTurn],
        user: SimulatedUser | None,
        voice: Voice | None,
        replayed: str | None = None,
        listener: SimulatedUser | None = None,
    ) -> None:
        """`replayed`: the run that the replies are of; None: a model's. `listener`: who knows what is said here before
        speaking."""
        self.given = place.given
        self._listener = listener
        self._case = case
        self._place = place
        self._user = user
        self._voice = voice
        self._replayed = replayed
        self._script = script
        self.spoken = 0  # messages of the conversation so far
        self._broken = False
        self._asked = False  # whether a call waits for the user's approval
        self._usage = Usage()
        self._model = ""
        self.problem: JudgeError | NoReplyError | None = None  # why there is no reply of the simulated user, if so

    @property
    def left(self) -> int:
        """Planned messages that were not sent."""
        return planned_turns(self._case) - self.spoken

    @property
    def is_complete(self) -> bool:
        """Whether the conversation can go on after all that this speaker had to say."""
        return not self._broken and (self._user is None or self._user.end != "fault")

    async def next(self) -> GivenTurn | None:
        """The next message; None at the end of the conversation."""
        if self._broken:
            return None
        said = self._script[self.spoken] if self.spoken < len(self._script) else None
        if said is None and (text := await self._simulated()) is not None:
            said = GivenTurn(text)
        self.spoken += said is not None
        return said

    async def _simulated(self) -> str | None:
        user = self._user
        if user is None or self._voice is None or user.end:
            return None
        if (opening := user.opening()) is not None:
            return opening
        try:
            reply = await self._voice(user, self._place)
        except (JudgeError, NoReplyError) as error:
            if isinstance(error, JudgeError):
                self._usage += error.usage
            self.problem = error
            user.unanswered(str(error))
            return None
        self._usage += reply.usage
        self._model = reply.model
        said = user.reply(reply.text)
        decision = _DECISION.fullmatch(said) if said and self._asked else None
        if decision is None:
            return said
        return UserMessage.of({"approve": True} if decision[1] else {"reject": decision[2] or True})

    def heard(self, text: str, turn: Turn | None, *, broken: bool) -> None:
        """What the agent made of the message `text`; no turn: nothing. A history ends with a turn that failed."""
        failed = turn is not None and turn_failure_of(turn.state, turn.response_text, turn.findings) is not None
        self._broken = broken = broken or (self.given and failed)
        if turn is None:
            return
        self._asked = bool(turn.approvals)
        answer = turn.response_text + (_QUESTION.format(", ".join(map(call_text, turn.approvals or ()))) * self._asked)
        if self._listener is not None:
            self._listener.scripted(text, answer)
        if self._user is None:
            return
        if self.spoken <= len(self._script):
            self._user.scripted(text, answer, failed=broken)
        else:
            self._user.hear(answer, failed=broken or turn.state in FAILED_STATES)

    @property
    def mark(self) -> dict[str, Any] | None:
        """What each turn has of the simulated user; None without one."""
        return None if self._user is None else {"conversation": self._place.number}

    @property
    def record(self) -> dict[str, Any] | None:
        """The JSON form of the simulated user's record; None without one that ended the conversation."""
        user = self._user
        if user is None or user.end is None:
            return None
        return UserRecord(
            conversation=self._place.number,
            end=user.end,
            replies=tuple(user.replies),
            instructions=fingerprint(user.instructions, user.scenario.opening),
            prompt=user.prompt,
            model=self._model,
            fault=user.fault,
            usage=self._usage,
            replayed=self._replayed,
        ).to_dict()


def planned_turns(case: Case) -> int:
    """The most turns that one conversation of the case has."""
    return len(case.turns) + (case.simulate.max_turns if case.simulate else 0)


Conversations = Mapping[str, Sequence[int]]  # numbers of conversations by the id of their case


SimulatedUsers = Callable[[Case, int], tuple[Speaker, Speaker]]
"""Creates the user's side of the conversation with a case that has this number: of its history, and of its turns."""


async def users_of(
    suite: Suite, todo: Conversations, store: Store, replay: str | None, seed: int | None = None
) -> SimulatedUsers:
    """The simulated users of the conversations `todo`; `replay` names the run whose replies they repeat. `seed`: of the
    run, unless the suite has one for the user.

    Raises ConfigError if they have no model or, with `replay`, no record; StoreError for an unknown run.
    """
    prompt = user_prompt(suite.simulated_user.prompt)
    held = [case for case in suite.cases if todo.get(case.id)]
    users = [(case, True, case.given.simulate) for case in held] + [(case, False, case.simulate) for case in held]
    simulated = {
        (case.id, given): (scenario, _instructions(case.id, scenario, prompt))
        for case, given, scenario in users
        if scenario is not None
    }
    histories = {case.id: await _given(case, case.given, store) for case in held}
    voice = None  # no case has a simulated user
    if replay is not None:
        records = await _records(store, replay)
        for case, given, scenario in users:
            if scenario is not None:
                _check_records(replay, records, case, given, todo[case.id], *simulated[case.id, given])
        voice = _of_run(replay, records)
    elif simulated:
        voice = _model(suite, next(iter(simulated))[0], seed)

    def user_of(case: Case, *, given: bool) -> SimulatedUser | None:
        scenario, instructions = simulated.get((case.id, given), (None, ""))
        return None if scenario is None else SimulatedUser(scenario, instructions, str(prompt), tool_names(case))

    def speakers(case: Case, number: int) -> tuple[Speaker, Speaker]:
        teller, user = user_of(case, given=True), user_of(case, given=False)
        script = [GivenTurn(turn.user, agent=turn.agent) for turn in case.turns]
        before = Speaker(case, _Place(case.id, number, True), histories[case.id], teller, voice, replay, user)
        return before, Speaker(case, _Place(case.id, number, False), script, user, voice, replay)

    return speakers


async def _given(case: Case, history: History, store: Store) -> Sequence[GivenTurn]:
    """The messages that are known before the conversation. Raises ConfigError, UnknownRunError."""
    if history.run is None:
        return history.turns
    wanted = history.case or case.id
    turns = [turn async for turn in turns_of(store, history.run) if turn["case_id"] == wanted]
    first = [turn for turn in turns if turn["conversation_id"] == turns[0]["conversation_id"]]
    agents = [name if (name := turn.get("agent_name")) in case.agents else None for turn in first]
    of = f"case {case.id!r}: given: case {wanted!r} of run {history.run!r}"
    if not 1 <= len(first) <= MAX_GIVEN:
        raise ConfigError(f"{of} has {counted(len(first), 'turn')}; expected 1 to {MAX_GIVEN}")
    if any(
        lacks_content(text) or is_redacted(f"{text} {parts}") or not text.strip() or not is_kept(parts)
        for text, parts in ((one["user_text"], one.get("user_parts")) for one in first)
    ):
        raise ConfigError(f"{of}: a message was stored redacted or without its text, and cannot be sent again")
    said = (sent_message(turn["user_text"], turn.get("user_parts")) for turn in first)
    return [GivenTurn(message, agent=name) for message, name in zip(said, agents, strict=True)]


def _instructions(case_id: str, scenario: Simulation, prompt: Prompt) -> str:
    try:
        return instructions_for(scenario, prompt)
    except OptionError as error:
        raise ConfigError(f"case {case_id!r}: {error}") from None


def _model(suite: Suite, case_id: str, seed: int | None) -> Voice:
    settings = suite.simulated_user
    try:
        model = settings.model_settings(suite.judge, os.environ)
        environ = settings.model_environment(suite.judge, os.environ)
    except OptionError as error:
        raise ConfigError(str(error)) from None
    problem = model.missing(environ)
    if model.model is None:
        problem = (
            f"no model is configured for it: give the suite `simulated_user: {{model: ...}}`, or set {ENVIRONMENT}MODEL"
        )
    if problem:
        problem = problem.replace(JUDGE_ENVIRONMENT, ENVIRONMENT).replace("judge's", "simulated user's")
        raise ConfigError(
            f"case {case_id!r} has a simulated user, but {problem}; or repeat an earlier run without a model: "
            "--replay-user RUN"
        )
    return _of_model(
        ChatJudge(model, model.api_key(environ), role="simulated user"),
        seed if settings.seed is None else settings.seed,
    )


async def _records(store: Store, run: str) -> dict[_Place, UserRecord]:
    found: dict[_Place, UserRecord] = {}
    async for turn in turns_of(store, run):
        if turn["case_id"] and (record := record_in([turn])):
            found[_Place(turn["case_id"], record.conversation, bool(turn.get("given")))] = record
    return found


def _check_records(
    run: str,
    records: Mapping[_Place, UserRecord],
    case: Case,
    given: bool,
    numbers: Iterable[int],
    scenario: Simulation,
    instructions: str,
) -> None:
    """Raise ConfigError, naming the turn, for a conversation whose user cannot write as in `run`."""
    first = "given turn 1" if given else f"turn {len(case.turns) + 1}"
    for number in numbers:
        found = records.get(_Place(case.id, number, given))
        if problem := _problem(found, fingerprint(instructions, scenario.opening)):
            raise ConfigError(f"--replay-user {run}: case {case.id!r}, conversation {number}, {first}: {problem}")


def _problem(record: UserRecord | None, instructions: str) -> str | None:
    if record is None:
        return "the run has no replies of a simulated user for it"
    if record.redacted:
        return "the replies were stored redacted or without content, and are not what was sent"
    if record.instructions != instructions:
        return "the replies were given under other instructions: the `simulate` block or the prompt has changed"
    return None


def tool_names(case: Case) -> frozenset[str]:
    """The names of the case's tools that are no plain words: a user does not know them."""
    expects = [case.expect, *(turn.expect for turn in case.turns)]
    names = {tool.name for tool in case.tools or ()}
    names |= {call.name for expect in expects for call in expect.tool_calls or ()}
    return frozenset(name for name in names if not (name.isalpha() and name[1:].islower()))
