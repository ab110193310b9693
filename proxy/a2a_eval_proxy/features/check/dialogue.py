"""The messages of a check, in order: the same ones over every interface, with every activation of the extension."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from a2a_tool_capture import TaskMerger
from a2a_tool_capture.errors import (
    AgentError,
    AgentUnreachableError,
    CaptureError,
    ConfigurationError,
    connection_problem,
    is_web_page,
    not_of_the_agent,
    response_problem,
)

from ...protocol.answers import conversation_of, task_id_of
from ...protocol.operations import Binding, Operation
from . import requests
from .client import ProbeClient
from .record import (
    Activation,
    CardSeen,
    Interface,
    NotChecked,
    OperationRequest,
    ProbeConversation,
    ProbeExchange,
    ProbeRecord,
    ProbeTurn,
    ResponseEvent,
    entries,
    first_task_id,
    shows_end,
    states,
)
from .requests import objects, offered_interfaces, offers_streaming

GRPC_MISSING = "gRPC needs grpcio: pip install 'a2a-eval-proxy[grpc]'"
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
"""The ways to send a message to the agent."""


async def probe_agent(client: ProbeClient, url: str, messages: Sequence[str], progress: Progress) -> ProbeRecord:
    """Talk to the agent at `url` over every interface of its card; an agent at grpc:// or grpcs:// over gRPC only.

    Without `messages`, sends the first example of the card's skills that makes the agent call a tool. Calls `progress`
    with the name of each step.

    Raises AgentUnreachableError or AgentError if there is no card, ConfigurationError for grpc:// without grpcio; every
    other failure is part of the record.
    """
    progress("agent card")
    not_checked: list[NotChecked] = []
    if url.startswith(("grpc://", "grpcs://")):
        seen, interfaces = await _card_over_grpc(client, url)
    else:
        seen = await client.card(url)
        interfaces, not_checked = offered_interfaces(seen.card)
    if find_spec("grpc") is None:
        not_checked += [NotChecked(str(each), GRPC_MISSING) for each in interfaces if each.binding is Binding.GRPC]
        interfaces = [each for each in interfaces if each.binding is not Binding.GRPC]
    probes = [_Probe(client, interface, offers_streaming(seen.card), progress) for interface in interfaces]
    if probes:
        await _converse(probes, list(messages) or [await _message_that_calls_a_tool(probes[0], seen.card)])
    return ProbeRecord(seen, tuple(probe.conversation for probe in probes), tuple(not_checked))


async def _card_over_grpc(client: ProbeClient, url: str) -> tuple[CardSeen, list[Interface]]:
    """Returns the extended card of an agent without an HTTP port, and an interface for each service that it has.

    Without a card, a stand-in offers streaming.
    """
    if find_spec("grpc") is None:
        raise ConfigurationError(f"{url}: {GRPC_MISSING}")
    found: CardSeen | None = None
    interfaces = []
    for version in ("1.0", "0.3"):
        interface = Interface(Binding.GRPC, version, url)
        unknown = await client.exchange(requests.get(interface, f"no-such-task-{uuid.uuid4().hex}"))
        if unknown.status == 0:
            raise AgentUnreachableError(f"{url}: {connection_problem(unknown.problem, url)}")
        if unknown.grpc_status == "UNIMPLEMENTED":
            continue
        interfaces.append(interface)
        answer = await client.exchange(requests.extended_card(interface))
        if found is None and not answer.problem and answer.events:
            found = CardSeen(answer.request, answer.events[0].raw)
    if found is None:
        stand_in = {"name": url, "capabilities": {"streaming": True}}
        found = CardSeen(requests.extended_card(Interface(Binding.GRPC, "1.0", url)), stand_in, missing=True)
    return found, interfaces or [Interface(Binding.GRPC, "1.0", url)]


async def _converse(probes: Sequence[_Probe], messages: Sequence[str]) -> None:
    """Send each message over every interface, and once more where that shows what is wrong."""
    for probe in probes:
        for message in messages:
            await probe.send_all_variants(message)
    messages_with_calls = {message for probe in probes for message in probe.messages_with_calls}
    for probe in probes:
        await (
            probe.repeat_without_calls(messages_with_calls) if messages_with_calls else probe.try_wrong_places(messages)
        )


async def _message_that_calls_a_tool(probe: _Probe, card: dict[str, Any]) -> str:
    """Returns the first candidate that makes the agent call a tool, or the first candidate if none does."""
    candidates = [*skill_examples(card)[:MAX_EXAMPLES], FALLBACK_MESSAGE]
    for candidate in candidates[:-1]:
        turn = await probe.turn(candidate, Operation.SEND, Activation.V1)
        if turn.opening.status == 0:
            break
        if _shows_calls(turn):
            return candidate
    return candidates[0]


def skill_examples(card: dict[str, Any]) -> list[str]:
    lists = [examples for skill in objects(card.get("skills")) if isinstance(examples := skill.get("examples"), list)]
    return [example for examples in lists for example in examples if isinstance(example, str) and example.strip()]


class _Probe:
    """Sends messages over one interface and keeps the turns."""

    def __init__(self, client: ProbeClient, interface: Interface, streams: bool, progress: Progress) -> None:
        self._client = client
        self._interface = interface
        self._streams = streams
        self._progress = progress
        self._turns: list[ProbeTurn] = []

    @property
    def conversation(self) -> ProbeConversation:
        return ProbeConversation(self._interface, tuple(self._turns), self._streams)

    @property
    def messages_with_calls(self) -> set[str]:
        """Messages whose answers show tool calls."""
        return {turn.message for turn in self._turns if _shows_calls(turn)}

    async def send_all_variants(self, message: str) -> None:
        """Send `message` in every variant; stops if the interface cannot be reached."""
        for variant in _VARIANTS:
            if variant[0] is Operation.STREAM and not self._streams:
                continue
            turn = await self.turn(message, *variant)
            self._turns.append(turn)
            if turn.opening.status == 0 and variant == _VARIANTS[0]:
                return

    async def repeat_without_calls(self, messages_with_calls: set[str]) -> None:
        """Repeat messages that should show calls and did not."""
        for turn in list(self._turns):
            if (
                turn.activation not in (Activation.V1, Activation.V1_WITH_UNKNOWN)
                or turn.message not in messages_with_calls
                or turn.opening.problem
            ):
                continue
            for _ in range(EXTRA_ATTEMPTS):
                if _shows_calls(turn):
                    break
                turn = await self.turn(turn.message, turn.opening.operation, turn.activation)
                self._turns.append(turn)

    async def try_wrong_places(self, messages: Sequence[str]) -> None:
        """Activate the extension in the wrong places, after the right one showed no calls."""
        answered = {turn.message for turn in self._turns if turn.opening.status}
        for message in messages:
            if message in answered:
                self._turns.append(await self.turn(message, Operation.SEND, Activation.V1_IN_WRONG_PLACE))

    async def turn(self, message: str, operation: Operation, activation: Activation) -> ProbeTurn:
        """Send `message` and read its task with every operation."""
        self._progress(f"{self._interface}: {operation}, asking for {activation.value}")
        request = requests.send(self._interface, operation, message, uuid.uuid4().hex, activation)
        later: list[ProbeExchange] = []
        if operation is Operation.STREAM:
            opening, later = await self._stream(request)
        else:
            opening = await self._client.exchange(request)
        resumed: list[ProbeExchange] = []
        if task_id := first_task_id(opening):
            later += await self._read(opening, task_id)
            if (operation, activation) == (Operation.SEND, Activation.V1) and states(opening, *later)[-1:] == [
                INPUT_REQUIRED
            ]:
                resumed = await self._resume(message, task_id)
        return ProbeTurn(message, opening, tuple(later), tuple(resumed))

    async def _resume(self, message: str, task_id: str) -> list[ProbeExchange]:
        """Send the same message again to the task; returns the answer and, if it is another, the finished task."""
        request = requests.send(
            self._interface, Operation.SEND, message, uuid.uuid4().hex, Activation.V1, task_id=task_id
        )
        answer = await self._client.exchange(request)
        done = await self._client.finished(answer, task_id)
        return [answer] if done is answer else [answer, done]

    async def _read(self, opening: ProbeExchange, task_id: str) -> list[ProbeExchange]:
        """Read the finished task with every operation that shows it; for version 1 also without activation."""
        done = await self._client.finished(opening, task_id)
        if opening.activation not in (Activation.NOTHING, Activation.V1):
            return [await self._get(task_id, opening.activation)]
        activations = dict.fromkeys((opening.activation, Activation.NOTHING))
        context_id = next(filter(None, map(conversation_of, opening.normal_events)), "")
        waiting = self._streams and not shows_end(done)
        read = []
        for activation in activations:
            read.append(await self._get(task_id, activation))
            if context_id and not self._interface.legacy:
                read.append(await self._client.exchange(requests.list_tasks(self._interface, context_id, activation)))
            if waiting:
                read.append(await self._client.exchange(requests.subscribe(self._interface, task_id, activation)))
        return read

    async def _get(self, task_id: str, activation: Activation) -> ProbeExchange:
        return await self._client.exchange(requests.get(self._interface, task_id, activation))

    async def _stream(self, request: OperationRequest) -> tuple[ProbeExchange, list[ProbeExchange]]:
        """Open a stream, and subscribe to its task as soon as its id is known."""
        subscriptions: list[asyncio.Task[ProbeExchange]] = []

        def subscribe(event: ResponseEvent) -> None:
            task_id = task_id_of(event.normal) if event.normal and "message" not in event.normal else ""
            if subscriptions or not task_id or request.activation is not Activation.V1:
                return
            for each in (Activation.V1, Activation.NOTHING):
                subscription = self._client.exchange(requests.subscribe(self._interface, task_id, each))
                subscriptions.append(asyncio.create_task(subscription))

        try:
            opening = await self._client.exchange(request, subscribe)
            return opening, [await subscription for subscription in subscriptions]
        finally:
            for subscription in subscriptions:
                subscription.cancel()


def failed_throughout(record: ProbeRecord) -> CaptureError | None:
    """The error for an agent that failed each message, without a call to look at; None if it did not."""
    turns = [turn for conversation in record.conversations for turn in conversation.turns]
    failures = [why for turn in turns if (why := _failure(turn))]
    if not turns or len(failures) < len(turns) or any(map(_shows_calls, turns)):
        return None
    turn, why = turns[0], failures[0]
    status, url = turn.opening.status, turn.opening.request.interface.url
    headers = {name.lower(): value for name, value in turn.opening.headers}
    if not status:
        return AgentUnreachableError(f"{url}: {why}")
    if is_web_page(headers) or (status >= 300 and not_of_the_agent(status, headers)):
        said = response_problem(status, headers, "", url) or why.removeprefix(f"HTTP {status}: ")
        return AgentUnreachableError(f"{url} answered HTTP {status}: {said}")
    return AgentError(f"the agent failed {turn.message!r} ({why}); read its log, or send another with --message")


def _failure(turn: ProbeTurn) -> str:
    """Why the agent failed this message; "" if it did not."""
    if turn.opening.problem:
        return turn.opening.problem
    if ("", *states(*turn.exchanges))[-1] != "TASK_STATE_FAILED":
        return ""
    merger = TaskMerger()
    for event in turn.opening.normal_events:
        merger.feed(event)
    return merger.response_text or "its task failed"


def _shows_calls(turn: ProbeTurn) -> bool:
    return any(entries(exchange) for exchange in turn.exchanges)
