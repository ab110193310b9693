"""The messages of a check, in order: the same ones over every interface, with every activation of the extension."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from a2a.types import AgentCard
from a2a_tool_capture.errors import AgentError, CaptureError
from a2a_tool_capture.wire import TERMINAL_STATES

from ...protocol.answers import conversation_of, task_id_of
from ...protocol.operations import Operation
from .client import ProbeClient, offered_interfaces
from .record import Activation, Event, Interface, ProbeConversation, ProbeExchange, ProbeRecord, ProbeTurn, merged

FALLBACK_MESSAGE = "Please use one of your tools and tell me the result."
MAX_EXAMPLES = 3
"""Maximum number of the card's examples to send until one makes the agent call a tool."""
EXTRA_ATTEMPTS = 2
"""Repetitions of a message that made the agent call tools once but not this time: models vary."""
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"

Progress = Callable[[str], None]

_VARIANTS = (
    (Operation.SEND, Activation.NOTHING),
    (Operation.STREAM, Activation.NOTHING),
    (Operation.SEND, Activation.V1),
    (Operation.STREAM, Activation.V1),
    (Operation.SEND, Activation.UNKNOWN),
    (Operation.SEND, Activation.V1_WITH_UNKNOWN),
)


async def probe_agent(client: ProbeClient, url: str, messages: Sequence[str], progress: Progress) -> ProbeRecord:
    """Talk to the agent at `url` over every interface of its card; an agent at grpc:// or grpcs:// over gRPC only.

    Without `messages`, sends the first example of the card's skills that makes the agent call a tool. Calls `progress`
    with the name of each step.

    Raises AgentUnreachableError or AgentError if there is no card, ConfigurationError for grpc:// without grpcio; every
    other failure is part of the record.
    """
    progress("agent card")
    seen, card, unread = await client.card(url)
    interfaces, left = offered_interfaces(card)
    streams = card.capabilities.streaming
    probes = [_Probe(client, interface, streams, progress) for interface in interfaces]
    if probes:
        messages = messages or [await _message_that_calls_a_tool(probes[0], card)]
        for probe in probes:
            for message in messages:
                await probe.send_all_variants(message)
        with_calls = {turn.message for probe in probes for turn in probe.turns if turn.shows_calls}
        for probe in probes:
            await (probe.repeat_without_calls(with_calls) if with_calls else probe.try_wrong_places(messages))
    said = [
        ProbeConversation(interface, tuple(probe.turns), streams)
        for interface, probe in zip(interfaces, probes, strict=True)
    ]
    return ProbeRecord(seen, tuple(said), (*unread, *left))


async def _message_that_calls_a_tool(probe: _Probe, card: AgentCard) -> str:
    """Returns the first candidate that makes the agent call a tool, or the first candidate if none does."""
    examples: list[str] = [example for skill in card.skills for example in skill.examples if example.strip()][
        :MAX_EXAMPLES
    ]
    for example in examples:
        turn = await probe.turn(example, Operation.SEND, Activation.V1)
        if turn.opening.unreachable:
            break
        if turn.shows_calls:
            return example
    return next(iter(examples), FALLBACK_MESSAGE)


class _Probe:
    def __init__(self, client: ProbeClient, interface: Interface, streams: bool, progress: Progress) -> None:
        self._client = client
        self._interface = interface
        self._streams = streams
        self._progress = progress
        self.turns: list[ProbeTurn] = []

    async def send_all_variants(self, message: str) -> None:
        """Send `message` in every variant; stops if the interface cannot be reached."""
        for variant in _VARIANTS:
            if variant[0] is Operation.STREAM and not self._streams:
                continue
            turn = await self.turn(message, *variant)
            self.turns.append(turn)
            if turn.opening.unreachable and variant == _VARIANTS[0]:
                return

    async def repeat_without_calls(self, with_calls: set[str]) -> None:
        for turn in list(self.turns):
            asks = turn.activation in (Activation.V1, Activation.V1_WITH_UNKNOWN) and turn.message in with_calls
            for _ in range(EXTRA_ATTEMPTS if asks and not turn.opening.problem else 0):
                if turn.shows_calls:
                    break
                turn = await self.turn(turn.message, turn.opening.operation, turn.activation)
                self.turns.append(turn)

    async def try_wrong_places(self, messages: Sequence[str]) -> None:
        """Activate the extension in the wrong places, after the right one showed no calls."""
        answered = {turn.message for turn in self.turns if not turn.opening.unreachable}
        for message in messages:
            if message in answered:
                self.turns.append(await self.turn(message, Operation.SEND, Activation.V1_IN_WRONG_PLACE))

    async def turn(self, message: str, operation: Operation, activation: Activation) -> ProbeTurn:
        self._progress(f"{self._interface}: {operation}, asking for {activation.value}")
        opening, later = await self._open(message, operation, activation)
        resumed: list[ProbeExchange] = []
        if task_id := opening.task_id:
            later += await self._read(opening, task_id)
            waits = [state for exchange in (opening, *later) for state in exchange.states][-1:] == [INPUT_REQUIRED]
            if waits and (operation, activation) == (Operation.SEND, Activation.V1):
                answer = await self._client.send(self._interface, operation, message, activation, task_id)
                done = await self._client.finished(self._interface, answer, task_id)
                resumed = [answer] if done is answer else [answer, done]
        return ProbeTurn(message, opening, tuple(later), tuple(resumed))

    async def _open(
        self, message: str, operation: Operation, activation: Activation
    ) -> tuple[ProbeExchange, list[ProbeExchange]]:
        """Send a message. Of a stream that asks for calls, subscribe to its task as soon as its id is known."""
        subscriptions: list[asyncio.Task[ProbeExchange]] = []

        def subscribe(event: Event) -> None:
            task_id = "" if "message" in event else task_id_of(event)
            if not subscriptions and task_id and (operation, activation) == (Operation.STREAM, Activation.V1):
                for each in (Activation.V1, Activation.NOTHING):
                    reads = self._client.subscribe(self._interface, task_id, each)
                    subscriptions.append(asyncio.create_task(reads))

        try:
            opening = await self._client.send(self._interface, operation, message, activation, listener=subscribe)
            return opening, [await subscription for subscription in subscriptions]
        finally:
            for subscription in subscriptions:
                subscription.cancel()

    async def _read(self, opening: ProbeExchange, task_id: str) -> list[ProbeExchange]:
        """Read the finished task with every operation that shows it; for version 1 also without activation."""
        client, interface, activation = self._client, self._interface, opening.activation
        done = await client.finished(interface, opening, task_id)
        if activation not in (Activation.NOTHING, Activation.V1):
            return [await client.get(interface, task_id, activation)]
        context_id = next(filter(None, map(conversation_of, opening.events)), "")
        read = []
        for each in dict.fromkeys((activation, Activation.NOTHING)):
            read.append(await client.get(interface, task_id, each))
            if context_id and not interface.legacy:
                read.append(await client.list_tasks(interface, context_id, each))
            if self._streams and TERMINAL_STATES.isdisjoint(done.states):
                read.append(await client.subscribe(interface, task_id, each))
        return read


def failed_throughout(record: ProbeRecord) -> CaptureError | None:
    """The error for an agent that failed each message, without a call to look at; None if it did not."""
    turns = [turn for conversation in record.conversations for turn in conversation.turns]
    failures = [why for turn in turns if (why := _failure(turn))]
    if not turns or len(failures) < len(turns) or any(turn.shows_calls for turn in turns):
        return None
    if turns[0].opening.unreachable:
        return turns[0].opening.error
    return AgentError(
        f"the agent failed {turns[0].message!r} ({failures[0]}); read its log, or send another with --message"
    )


def _failure(turn: ProbeTurn) -> str:
    """Why the agent failed this message; "" if it did not."""
    states = [state for exchange in turn.exchanges for state in exchange.states]
    if turn.opening.problem or states[-1:] != ["TASK_STATE_FAILED"]:
        return turn.opening.problem
    return merged(turn.opening.events).response_text or "its task failed"
