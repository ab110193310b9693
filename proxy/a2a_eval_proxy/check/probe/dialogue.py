"""What a check says to an agent, in which order: the same messages over every interface, asking in every way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from a2a_tool_capture.wire import TERMINAL_STATES

from ...protocol.operations import Operation
from . import requests
from .client import Line
from .interfaces import offered_interfaces, offers_streaming
from .record import Asked, Conversation, Event, Exchange, Interface, Record, Turn
from .responses import context_id_of, entries, first_task_id, settled, state_of, task_id_of

FALLBACK_MESSAGE = "Please use one of your tools, and tell me what came of it."
MAX_EXAMPLES = 3
"""Examples of the card that are tried as messages, until one makes the agent call a tool."""
EXTRA_ATTEMPTS = 2
"""How often a message that once made the agent call tools is repeated where it did not: models vary."""
POLL_S = 0.25
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Manner:
    """A way to put a message to the agent."""

    asked: Asked
    stream: bool = False


_MANNERS = (
    _Manner(Asked.NOTHING),
    _Manner(Asked.NOTHING, stream=True),
    _Manner(Asked.V1),
    _Manner(Asked.V1, stream=True),
    _Manner(Asked.UNKNOWN),
    _Manner(Asked.BESIDE),
)
_ASIDE = _Manner(Asked.ASIDE)


async def examine(line: Line, url: str, messages: Sequence[str], progress: Progress) -> Record:
    """Talk to the agent at `url` over every interface of its card.

    Without `messages`, the first example of the card's skills that makes the agent call a tool is sent.
    `progress` is called with what comes next. Raises AgentUnreachableError or AgentError if there is no card; every
    other failure is part of the record.
    """
    progress("agent card")
    seen = await line.card(url)
    interfaces, not_checked = offered_interfaces(seen.card)
    streams = offers_streaming(seen.card)
    probes = [_Probe(line, interface, streams, progress) for interface in interfaces]
    if probes:
        chosen = list(messages) or [await _promising(probes[0], seen.card)]
        for probe in probes:
            for message in chosen:
                await probe.question(message)
        causing = {message for probe in probes for message in probe.causing}
        for probe in probes:
            await (probe.question_again(causing) if causing else probe.question_aside(chosen))
    return Record(seen, tuple(probe.conversation for probe in probes), tuple(not_checked))


async def _promising(probe: _Probe, card: dict[str, Any]) -> str:
    """The first candidate that makes the agent call a tool; the first of all if none does."""
    candidates = [*skill_examples(card)[:MAX_EXAMPLES], FALLBACK_MESSAGE]
    for candidate in candidates[:-1]:
        turn = await probe.turn(candidate, _Manner(Asked.V1))
        if turn.opening.status == 0:
            break
        if _shows_calls(turn):
            return candidate
    return candidates[0]


def skill_examples(card: dict[str, Any]) -> list[str]:
    """Texts that the card gives as examples for its skills, in its order."""
    skills = card.get("skills")
    return [
        example
        for skill in (skills if isinstance(skills, list) else ())
        if isinstance(skill, dict) and isinstance(skill.get("examples"), list)
        for example in skill["examples"]
        if isinstance(example, str) and example.strip()
    ]


class _Probe:
    """Questions one interface and keeps what was said."""

    def __init__(self, line: Line, interface: Interface, streams: bool, progress: Progress) -> None:
        self._line = line
        self._interface = interface
        self._streams = streams
        self._progress = progress
        self._turns: list[tuple[_Manner, Turn]] = []

    @property
    def conversation(self) -> Conversation:
        return Conversation(self._interface, tuple(turn for _, turn in self._turns), self._streams)

    @property
    def causing(self) -> set[str]:
        """Messages whose answers had tool calls."""
        return {turn.message for _, turn in self._turns if _shows_calls(turn)}

    async def question(self, message: str) -> None:
        """Put `message` in every manner, unless there is nobody who answers."""
        for manner in _MANNERS:
            if manner.stream and not self._streams:
                continue
            turn = await self.turn(message, manner)
            self._turns.append((manner, turn))
            if turn.opening.status == 0 and manner == _MANNERS[0]:
                return

    async def question_again(self, causing: set[str]) -> None:
        """Repeat what should have shown calls and did not."""
        for manner, turn in list(self._turns):
            if manner.asked not in (Asked.V1, Asked.BESIDE) or turn.message not in causing or turn.opening.problem:
                continue
            for _ in range(EXTRA_ATTEMPTS):
                if _shows_calls(turn):
                    break
                turn = await self.turn(turn.message, manner)
                self._turns.append((manner, turn))

    async def question_aside(self, messages: Sequence[str]) -> None:
        """Ask in the wrong places, since the right one brought nothing."""
        answered = {turn.message for _, turn in self._turns if turn.opening.status}
        for message in messages:
            if message in answered:
                self._turns.append((_ASIDE, await self.turn(message, _ASIDE)))

    async def turn(self, message: str, manner: _Manner) -> Turn:
        """Send `message` and read its task in all ways."""
        how = "stream" if manner.stream else "send"
        self._progress(f"{self._interface}: {how}, asking for {manner.asked.value}")
        request = requests.send(self._interface, message, uuid.uuid4().hex, manner.asked, stream=manner.stream)
        if manner.stream:
            opening, later = await self._stream(request, manner.asked)
        else:
            opening = await self._line.exchange(self._interface, Operation.SEND, manner.asked, request)
            later = []
        resumed: list[Exchange] = []
        if task_id := first_task_id(opening):
            later += await self._read(opening, task_id, manner.asked)
            if manner.asked is Asked.V1 and not manner.stream and _waits([opening, *later]):
                resumed = await self._resume(message, task_id)
        return Turn(message, opening, tuple(later), tuple(resumed))

    async def _resume(self, message: str, task_id: str) -> list[Exchange]:
        """The same message again, to the task, and the task once the agent is done with it."""
        text = (self._interface, message, uuid.uuid4().hex, Asked.V1)
        request = requests.send(*text, stream=False, task_id=task_id)
        answer = await self._ask(Operation.SEND, request, Asked.V1)
        done = await self._done(answer, task_id, Asked.V1)
        return [answer] if done is answer else [answer, done]

    async def _read(self, opening: Exchange, task_id: str, asked: Asked) -> list[Exchange]:
        """The task once it is done, by every operation that shows it; with those for version 1 go some for nothing."""
        done = await self._done(opening, task_id, asked)
        if asked in (Asked.UNKNOWN, Asked.BESIDE, Asked.ASIDE):
            return [await self._ask(Operation.GET, requests.get(self._interface, task_id, asked), asked)]
        ways = (asked, Asked.NOTHING) if asked is Asked.V1 else (asked,)
        context_id = next(filter(None, map(context_id_of, opening.normal_events)), "")
        waiting = self._streams and not any(state_of(event) in TERMINAL_STATES for event in done.normal_events)
        read = []
        for way in ways:
            read.append(await self._ask(Operation.GET, requests.get(self._interface, task_id, way), way))
            if context_id and not self._interface.legacy:
                request = requests.list_tasks(self._interface, context_id, way)
                read.append(await self._ask(Operation.LIST, request, way))
            if waiting:
                request = requests.subscribe(self._interface, task_id, way)
                read.append(await self._ask(Operation.SUBSCRIBE, request, way))
        return read

    async def _done(self, opening: Exchange, task_id: str, asked: Asked) -> Exchange:
        """`opening`, or the first read of the task after it that shows the agent done with the message."""
        done = opening
        for _ in range(ceil(self._line.timeout_s / POLL_S)):
            if done.problem or settled(done):
                break
            await asyncio.sleep(POLL_S)
            done = await self._ask(Operation.GET, requests.get(self._interface, task_id, asked), asked)
        return done

    async def _ask(self, operation: Operation, request: Any, asked: Asked) -> Exchange:
        return await self._line.exchange(self._interface, operation, asked, request)

    async def _stream(self, request: Any, asked: Asked) -> tuple[Exchange, list[Exchange]]:
        """A stream, and subscriptions to its task that begin as soon as its id is known."""
        beside: list[asyncio.Task[Exchange]] = []

        def subscribe(event: Event) -> None:
            task_id = task_id_of(event.normal) if event.normal is not None else ""
            if beside or not task_id or asked is not Asked.V1:
                return
            for way in (Asked.V1, Asked.NOTHING):
                subscription = requests.subscribe(self._interface, task_id, way)
                beside.append(asyncio.create_task(self._ask(Operation.SUBSCRIBE, subscription, way)))

        try:
            opening = await self._line.exchange(self._interface, Operation.STREAM, asked, request, subscribe)
            return opening, [await subscription for subscription in beside]
        finally:
            for subscription in beside:
                subscription.cancel()


def _waits(exchanges: Sequence[Exchange]) -> bool:
    """Whether the task was last seen waiting for the user's input."""
    states = [state_of(event) for exchange in exchanges for event in exchange.normal_events]
    return [state for state in states if state][-1:] == [INPUT_REQUIRED]


def _shows_calls(turn: Turn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges)
