"""The conversations with an agent that is not an A2A server: an instance for each, asked turn by turn."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from a2a_tool_capture.models import ToolCall, ToolCallSource
from a2a_tool_capture.recorder import CallRecording
from tool_call_evaluators.evaluator import FAILURES

from ...threads import in_daemon_thread
from .agent_spans import begin_turn
from .loading import failure

logger = logging.getLogger(__name__)

MAX_IDLE = 1000
"""Maximum number of idle conversations; the one that was idle longest ends first."""

CLOSE_TIMEOUT_S = 10.0
"""Maximum time that an agent's `close` may take."""


class AnswerError(Exception):
    """An agent returned what is no answer; the message says what was expected."""


class ModelUnreachableError(Exception):
    """Not an agent's model answered: no connection, a gateway, a login, a web page, an API that failed."""


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    text: str
    tool_calls: list[ToolCall]


@dataclass(slots=True)
class AgentConversation:
    """One agent, and what does not travel in its answers."""

    agent: Any
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    chat_id: str = ""
    """That the agent has for the conversation; "" before its first turn."""
    turns: int = 0
    sources: tuple[ToolCallSource, ...] = ()
    """Where the calls of its last turn were seen, in order."""
    unreachable: str = ""
    """Why the agent's model could not be reached, in its last turn, which then says nothing about the agent."""


class AgentConversations:
    """Conversations by their A2A contextId. To be used on one event loop."""

    def __init__(self, new_agent: Callable[[], Any]) -> None:
        """Create the agent of the first conversation. Raises what `new_agent` raises."""
        self._new_agent = new_agent
        self._spare = [new_agent()]
        self._open: OrderedDict[str, AgentConversation] = OrderedDict()

    def of(self, context_id: str) -> AgentConversation | None:
        return self._open.get(context_id)

    async def begin(self, context_id: str, said: Sequence[tuple[str, str]]) -> None:
        """A conversation with what was said, and answered, before."""
        self._begun(context_id).agent.remember(said)

    def _begun(self, context_id: str) -> AgentConversation:
        agent = self._spare.pop() if self._spare else self._new_agent()
        self._open[context_id] = AgentConversation(agent)
        return self._open[context_id]

    async def say(self, context_id: str, text: str, seed: int | None = None) -> AgentAnswer:
        """The agent's answer to a message, which gets the `seed` of the attempt if it takes one.

        Raises what the agent raises, AnswerError for what is no answer.
        """
        conversation = self._open.get(context_id) or self._begun(context_id)
        self._open.move_to_end(context_id)
        async with conversation.turn:
            conversation.unreachable = ""
            try:
                answer = await _ask(conversation, context_id, text, seed)
            except ModelUnreachableError as error:
                conversation.unreachable = str(error)
                raise
        await self._end_idle()
        return answer

    async def end(self, context_id: str) -> None:
        if conversation := self._open.pop(context_id, None):
            await _close(conversation.agent)

    async def end_all(self) -> None:
        agents = [*self._spare, *(conversation.agent for conversation in self._open.values())]
        self._spare.clear()
        self._open.clear()
        await asyncio.gather(*map(_close, agents))

    async def _end_idle(self) -> None:
        idle = [context_id for context_id, conversation in self._open.items() if not conversation.turn.locked()]
        for context_id in idle[: len(idle) - MAX_IDLE]:
            await self.end(context_id)


async def _ask(conversation: AgentConversation, context_id: str, text: str, seed: int | None) -> AgentAnswer:
    agent = conversation.agent
    if not conversation.chat_id:
        given = await called(agent.get_chat_id) if hasattr(agent, "get_chat_id") else None
        conversation.chat_id = str(given or context_id)
    place: dict[str, Any] = {"chat_id": conversation.chat_id, "turn_id": conversation.turns}
    conversation.turns += 1
    begin_turn(**place)
    given = place if seed is None else place | {"seed": seed}
    return _answer(
        await called(partial(agent.execute, text, **_accepted(agent.execute, {"metadata": given, **given}))),
        type(agent).__name__,
    )


def _accepted(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Of the keyword arguments `given`, those that a function takes."""
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in given.items() if takes_all or name in parameters}


def _answer(value: Any, agent: str) -> AgentAnswer:
    """Text, or content and tool calls: an object with these attributes, or a mapping with these keys."""
    if isinstance(value, str):
        return AgentAnswer(value, [])
    content = _field(value, "content")
    if not isinstance(content, str):
        expected = "expected text, or an AgentResponse whose content is text"
        raise AnswerError(f"{agent}.execute returned a {type(value).__name__}; {expected}")
    recording, ids = CallRecording(), set[str]()
    for index, call in enumerate(_field(value, "tool_calls") or ()):
        name, arguments, call_id = _field(call, "name"), _field(call, "arguments", {}), _field(call, "id") or ""
        if not isinstance(name, str) or not name or not isinstance(arguments, Mapping | None):
            raise AnswerError(f"{agent}.execute: tool_calls[{index}] needs a name, and arguments that are an object")
        outcome = {key: _field(call, key) for key in ("result", "error")}
        own_id, source = "" if call_id in ids else call_id, _source(_field(call, "source"))
        recording.record(name, arguments, id=own_id, source=source, **outcome)
        ids.add(call_id)
    calls = [replace(call, started_at=None, ended_at=None) for call in recording.tool_calls]  # when is not known
    return AgentAnswer(content, calls)


def _source(value: Any) -> ToolCallSource:
    try:
        return ToolCallSource(value)
    except ValueError:  # it states none, or one that is not known here
        return ToolCallSource.CLIENT


def _field(value: Any, name: str, absent: Any = None) -> Any:
    return value.get(name, absent) if isinstance(value, Mapping) else getattr(value, name, absent)


async def called(function: Callable[[], Any]) -> Any:
    """The result of a coroutine function, or of a function, which runs in a thread."""
    target = function.func if isinstance(function, partial) else function
    value = function() if inspect.iscoroutinefunction(target) else await in_daemon_thread(function, "agent")
    return await value if inspect.isawaitable(value) else value


async def _close(agent: Any) -> None:
    """Call an agent's `close`, if it has one; a failure is logged."""
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            if hasattr(agent, "close"):
                await called(agent.close)
    except TimeoutError:
        logger.warning("%s.close() did not end within %g s", type(agent).__name__, CLOSE_TIMEOUT_S)
    except FAILURES as error:
        logger.warning("%s.close() raised %s", type(agent).__name__, failure(error))
