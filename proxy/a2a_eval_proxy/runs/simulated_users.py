"""Who speaks for the user in a conversation of `run`: the case's script, then a simulated user.

For that, a model speaks or a recorded run, which is checked before the run begins.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

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
from tool_call_evaluators.suite import Case, Suite

from ..errors import ConfigError
from ..store import Store
from ..turn import Turn
from .stored_turns import turns_of


class NoReplyError(Exception):
    """The user's next message is not recorded; the message of the error names the turn."""


Voice = Callable[[SimulatedUser, Case, int], Awaitable[Reply]]
"""The next reply of a user in the conversation with this number. Raises JudgeError, NoReplyError."""


def _of_model(model: ChatJudge, seed: int | None) -> Voice:
    def reply(user: SimulatedUser, case: Case, number: int) -> Awaitable[Reply]:
        return model.reply(user.messages(), None if seed is None else attempt_seed(seed, case.id, number))

    return reply


def _of_run(run: str, records: Mapping[tuple[str, int], UserRecord]) -> Voice:
    """The replies of an earlier run, by case and number of the conversation."""

    async def reply(user: SimulatedUser, case: Case, number: int) -> Reply:
        record = records[case.id, number]
        position = len(user.replies)
        if position >= len(record.replies):
            raise NoReplyError(
                f"run {run!r} has no reply of the user for turn {user.turns + 1} of case {case.id!r}, "
                f"conversation {number}: there, the conversation ended before (end: {record.end})"
            )
        return Reply(record.replies[position], record.model)

    return reply


class Speaker:
    """The user's side of one conversation: the scripted turns of the case, then (with `user`) the simulated ones."""

    def __init__(
        self, case: Case, number: int, user: SimulatedUser | None, voice: Voice | None, replayed: str | None = None
    ) -> None:
        """`replayed`: the run that the replies are of; None: a model's."""
        self._case = case
        self._number = number
        self._user = user
        self._voice = voice
        self._replayed = replayed
        self._script = [turn.user for turn in case.turns]
        self.spoken = 0  # messages of the conversation so far
        self._broken = False
        self._usage = Usage()
        self._model = ""
        self.problem: JudgeError | NoReplyError | None = None  # why there is no reply of the simulated user, if so

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
            reply = await self._voice(user, self._case, self._number)
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
        return UserRecord(
            conversation=self._number,
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


SimulatedUsers = Callable[[Case, int], Speaker]
"""Creates the user's side of the conversation with a case that has this number."""


async def users_of(
    suite: Suite, todo: Conversations, store: Store, replay: str | None, seed: int | None = None
) -> SimulatedUsers:
    """The simulated users of the conversations `todo`; `replay` names the run whose replies they repeat. `seed`: of the
    run, unless the suite has one for the user.

    Raises ConfigError if they have no model or, with `replay`, no record; StoreError for an unknown run.
    """
    prompt = user_prompt(suite.simulated_user.prompt)
    simulated = {case.id: case.simulate for case in suite.cases if case.simulate and todo.get(case.id)}
    instructions = {case_id: _instructions(case_id, scenario, prompt) for case_id, scenario in simulated.items()}
    voice = None  # no case has a simulated user
    if replay is not None:
        records = await _records(store, replay)
        for case in suite.cases:
            if case.id in simulated:
                _check_records(replay, records, case, todo[case.id], instructions[case.id])
        voice = _of_run(replay, records)
    elif simulated:
        voice = _model(suite, next(iter(simulated)), seed)

    def speaker(case: Case, number: int) -> Speaker:
        if case.simulate is None:
            return Speaker(case, number, None, None)
        user = SimulatedUser(case.simulate, instructions[case.id], str(prompt), tool_names(case))
        return Speaker(case, number, user, voice, replay)

    return speaker


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


async def _records(store: Store, run: str) -> dict[tuple[str, int], UserRecord]:
    found: dict[tuple[str, int], UserRecord] = {}
    async for turn in turns_of(store, run):
        if turn["case_id"] and (record := record_in([turn])):
            found[turn["case_id"], record.conversation] = record
    return found


def _check_records(
    run: str, records: Mapping[tuple[str, int], UserRecord], case: Case, numbers: Iterable[int], instructions: str
) -> None:
    """Raise ConfigError, naming the turn, for a conversation whose user cannot write as in `run`."""
    opening = case.simulate.opening if case.simulate else None
    for number in numbers:
        if problem := _problem(records.get((case.id, number)), fingerprint(instructions, opening)):
            first = len(case.turns) + 1
            raise ConfigError(f"--replay-user {run}: case {case.id!r}, conversation {number}, turn {first}: {problem}")


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
