"""The messages of a check, in order: the same ones over every interface, with every activation of the extension."""

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
from .client import ProbeClient
from .interfaces import offered_interfaces, offers_streaming
from .record import Activation, Interface, ProbeConversation, ProbeExchange, ProbeRecord, ProbeTurn, ResponseEvent
from .responses import context_id_of, entries, first_task_id, settled, state_of, task_id_of

FALLBACK_MESSAGE = "Please use one of your tools and tell me the result."
MAX_EXAMPLES = 3
"""Maximum number of the card's examples to send until one makes the agent call a tool."""
EXTRA_ATTEMPTS = 2
"""Repetitions of a message that made the agent call tools once but not this time: models vary."""
POLL_S = 0.25
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Variant:
    """One way to send a message to the agent."""

    activation: Activation
    stream: bool = False


_VARIANTS = (
    _Variant(Activation.NOTHING),
    _Variant(Activation.NOTHING, stream=True),
    _Variant(Activation.V1),
    _Variant(Activation.V1, stream=True),
    _Variant(Activation.UNKNOWN),
    _Variant(Activation.V1_WITH_UNKNOWN),
)
_WRONG_PLACE = _Variant(Activation.V1_IN_WRONG_PLACE)


async def probe_agent(client: ProbeClient, url: str, messages: Sequence[str], progress: Progress) -> ProbeRecord:
    """Talk to the agent at `url` over every interface of its card.

    Without `messages`, sends the first example of the card's skills that makes the agent call a tool. Calls `progress`
    with the name of each step. Raises AgentUnreachableError or AgentError if there is no card; every other failure is
    part of the record.
    """
    progress("agent card")
    seen = await client.card(url)
    interfaces, not_checked = offered_interfaces(seen.card)
    streams = offers_streaming(seen.card)
    probes = [_Probe(client, interface, streams, progress) for interface in interfaces]
    if probes:
        chosen = list(messages) or [await _message_that_calls_a_tool(probes[0], seen.card)]
        for probe in probes:
            for message in chosen:
                await probe.send_all_variants(message)
        messages_with_calls = {message for probe in probes for message in probe.messages_with_calls}
        for probe in probes:
            await (
                probe.repeat_without_calls(messages_with_calls)
                if messages_with_calls
                else probe.try_wrong_places(chosen)
            )
    return ProbeRecord(seen, tuple(probe.conversation for probe in probes), tuple(not_checked))


async def _message_that_calls_a_tool(probe: _Probe, card: dict[str, Any]) -> str:
    """Returns the first candidate that makes the agent call a tool, or the first candidate if none does."""
    candidates = [*skill_examples(card)[:MAX_EXAMPLES], FALLBACK_MESSAGE]
    for candidate in candidates[:-1]:
        turn = await probe.turn(candidate, _Variant(Activation.V1))
        if turn.opening.status == 0:
            break
        if _shows_calls(turn):
            return candidate
    return candidates[0]


def skill_examples(card: dict[str, Any]) -> list[str]:
    """Returns the examples of the card's skills, in the card's order."""
    skills = card.get("skills")
    return [
        example
        for skill in (skills if isinstance(skills, list) else ())
        if isinstance(skill, dict) and isinstance(skill.get("examples"), list)
        for example in skill["examples"]
        if isinstance(example, str) and example.strip()
    ]


class _Probe:
    """Sends messages over one interface and keeps the turns."""

    def __init__(self, client: ProbeClient, interface: Interface, streams: bool, progress: Progress) -> None:
        self._client = client
        self._interface = interface
        self._streams = streams
        self._progress = progress
        self._turns: list[tuple[_Variant, ProbeTurn]] = []

    @property
    def conversation(self) -> ProbeConversation:
        return ProbeConversation(self._interface, tuple(turn for _, turn in self._turns), self._streams)

    @property
    def messages_with_calls(self) -> set[str]:
        """Messages whose answers show tool calls."""
        return {turn.message for _, turn in self._turns if _shows_calls(turn)}

    async def send_all_variants(self, message: str) -> None:
        """Send `message` in every variant; stops if the interface cannot be reached."""
        for variant in _VARIANTS:
            if variant.stream and not self._streams:
                continue
            turn = await self.turn(message, variant)
            self._turns.append((variant, turn))
            if turn.opening.status == 0 and variant == _VARIANTS[0]:
                return

    async def repeat_without_calls(self, messages_with_calls: set[str]) -> None:
        """Repeat messages that should show calls and did not."""
        for variant, turn in list(self._turns):
            if (
                variant.activation not in (Activation.V1, Activation.V1_WITH_UNKNOWN)
                or turn.message not in messages_with_calls
                or turn.opening.problem
            ):
                continue
            for _ in range(EXTRA_ATTEMPTS):
                if _shows_calls(turn):
                    break
                turn = await self.turn(turn.message, variant)
                self._turns.append((variant, turn))

    async def try_wrong_places(self, messages: Sequence[str]) -> None:
        """Activate the extension in the wrong places, after the right one showed no calls."""
        answered = {turn.message for _, turn in self._turns if turn.opening.status}
        for message in messages:
            if message in answered:
                self._turns.append((_WRONG_PLACE, await self.turn(message, _WRONG_PLACE)))

    async def turn(self, message: str, variant: _Variant) -> ProbeTurn:
        """Send `message` and read its task with every operation."""
        how = "stream" if variant.stream else "send"
        self._progress(f"{self._interface}: {how}, asking for {variant.activation.value}")
        request = requests.send(self._interface, message, uuid.uuid4().hex, variant.activation, stream=variant.stream)
        if variant.stream:
            opening, later = await self._stream(request, variant.activation)
        else:
            opening = await self._client.exchange(self._interface, Operation.SEND, variant.activation, request)
            later = []
        resumed: list[ProbeExchange] = []
        if task_id := first_task_id(opening):
            later += await self._read(opening, task_id, variant.activation)
            if variant.activation is Activation.V1 and not variant.stream and _waits([opening, *later]):
                resumed = await self._resume(message, task_id)
        return ProbeTurn(message, opening, tuple(later), tuple(resumed))

    async def _resume(self, message: str, task_id: str) -> list[ProbeExchange]:
        """Send the same message again to the task; returns the answer and, if it is another, the finished task."""
        text = (self._interface, message, uuid.uuid4().hex, Activation.V1)
        request = requests.send(*text, stream=False, task_id=task_id)
        answer = await self._ask(Operation.SEND, request, Activation.V1)
        done = await self._done(answer, task_id, Activation.V1)
        return [answer] if done is answer else [answer, done]

    async def _read(self, opening: ProbeExchange, task_id: str, activation: Activation) -> list[ProbeExchange]:
        """Read the finished task with every operation that shows it; for version 1 also without activation."""
        done = await self._done(opening, task_id, activation)
        if activation in (Activation.UNKNOWN, Activation.V1_WITH_UNKNOWN, Activation.V1_IN_WRONG_PLACE):
            return [await self._ask(Operation.GET, requests.get(self._interface, task_id, activation), activation)]
        activations = (activation, Activation.NOTHING) if activation is Activation.V1 else (activation,)
        context_id = next(filter(None, map(context_id_of, opening.normal_events)), "")
        waiting = self._streams and not any(state_of(event) in TERMINAL_STATES for event in done.normal_events)
        read = []
        for activation in activations:
            read.append(await self._ask(Operation.GET, requests.get(self._interface, task_id, activation), activation))
            if context_id and not self._interface.legacy:
                request = requests.list_tasks(self._interface, context_id, activation)
                read.append(await self._ask(Operation.LIST, request, activation))
            if waiting:
                request = requests.subscribe(self._interface, task_id, activation)
                read.append(await self._ask(Operation.SUBSCRIBE, request, activation))
        return read

    async def _done(self, opening: ProbeExchange, task_id: str, activation: Activation) -> ProbeExchange:
        """Returns `opening`, or the first later read of the task that shows a settled state."""
        done = opening
        for _ in range(ceil(self._client.timeout_s / POLL_S)):
            if done.problem or settled(done):
                break
            await asyncio.sleep(POLL_S)
            done = await self._ask(Operation.GET, requests.get(self._interface, task_id, activation), activation)
        return done

    async def _ask(self, operation: Operation, request: Any, activation: Activation) -> ProbeExchange:
        return await self._client.exchange(self._interface, operation, activation, request)

    async def _stream(self, request: Any, activation: Activation) -> tuple[ProbeExchange, list[ProbeExchange]]:
        """Open a stream, and subscribe to its task as soon as its id is known."""
        subscriptions: list[asyncio.Task[ProbeExchange]] = []

        def subscribe(event: ResponseEvent) -> None:
            task_id = task_id_of(event.normal) if event.normal is not None else ""
            if subscriptions or not task_id or activation is not Activation.V1:
                return
            for each in (Activation.V1, Activation.NOTHING):
                subscription = requests.subscribe(self._interface, task_id, each)
                subscriptions.append(asyncio.create_task(self._ask(Operation.SUBSCRIBE, subscription, each)))

        try:
            opening = await self._client.exchange(self._interface, Operation.STREAM, activation, request, subscribe)
            return opening, [await subscription for subscription in subscriptions]
        finally:
            for subscription in subscriptions:
                subscription.cancel()


def _waits(exchanges: Sequence[ProbeExchange]) -> bool:
    """Whether the last known state of the task is input-required."""
    states = [state_of(event) for exchange in exchanges for event in exchange.normal_events]
    return [state for state in states if state][-1:] == [INPUT_REQUIRED]


def _shows_calls(turn: ProbeTurn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges)
